//! The homes of a generated trace: what the server holds. Memory grows with the number of files alone.

use std::collections::{BTreeMap, VecDeque};

use esker_base::Stream;

use super::NfsShape;

/// Files of a home: median, and standard deviation of the logarithm (8.2 MB and 257 MB, by files of 249 KB).
const HOME_FILES_MEDIAN: f64 = 33.0;
const HOME_FILES_SIGMA: f64 = 2.62;
const HOME_FILES_MAX: f64 = 100_000.0;
/// Bytes of a file: median, and the deviation that gives a mean of 249.3 KB.
const FILE_MEDIAN: f64 = 3_700.0;
const FILE_SIGMA: f64 = 2.902;
const FILE_MAX: f64 = 4_294_967_296.0;
const FILE_MAX_LEAST: f64 = 1_048_576.0;
/// Files in a directory, on average.
const FILES_PER_DIR: f64 = 12.0;
/// Share of new files that outlive the trace: 190,000 files lie there at its end (47.3 GB by files of 249 KB), and
/// 4.3 million were made.
const STAYING: f64 = 0.044;
/// Lifetimes of the other ones, in microseconds. Few blocks of home directories live for more than a day (Ellard,
/// Ledlie, Malkani and Seltzer, FAST 2003, trace EECS).
const LIFETIME_LEAST: f64 = 1e6;
const LIFETIME_MOST: f64 = 86_400e6;
/// Handles of removed files that wait for a new one.
const FREED_MAX: usize = 4096;
/// Directories that are tried before a user counts as one without files.
const TRIES: usize = 8;
/// The directory above all homes.
const TOP_INODE: u64 = 1;

/// A file under one of its names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HomeFile {
    inode: u64,
    name: u64,
    pub(super) size: u64,
    /// When this name goes: microseconds since 1970. `None` if it outlives the trace.
    dies: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct HomeDir {
    inode: u64,
    above: u64,
    name: String,
    files: Vec<HomeFile>,
}

struct Home {
    dirs: Vec<HomeDir>,
    /// Files that are not written to their end, the newest last: inode, written bytes, size.
    unwritten: Vec<(u64, u64, u64)>,
    /// The file that was written last, if it is there: inode, size.
    written: Option<(u64, u64)>,
}

/// Where a file is: user, directory, number there. It holds until files go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    user: usize,
    dir: usize,
    file: usize,
}

pub(super) struct Homes {
    homes: Vec<Home>,
    /// Sums of the users' shares of activity.
    activity: Vec<f64>,
    hot_dirs: f64,
    hot_work: f64,
    reuse: f64,
    /// Bytes of the largest file: they keep their share of all bytes.
    file_max: f64,
    draws: Stream,
    next_inode: u64,
    next_name: u64,
    freed: VecDeque<u64>,
    /// Names of files with several.
    links: BTreeMap<u64, u32>,
    /// Names that go, by time and name, with user and directory.
    dying: BTreeMap<(u64, u64), (usize, usize)>,
}

impl HomeFile {
    pub(super) fn handle(&self) -> String {
        handle_text(self.inode)
    }

    pub(super) fn name(&self) -> String {
        name_text(self.name)
    }
}

impl HomeDir {
    pub(super) fn handle(&self) -> String {
        handle_text(self.inode)
    }
}

fn name_text(name: u64) -> String {
    let ending = ["c", "o", "tex", "mbox", "lock", "txt"][(name % 6) as usize];
    match name % 16 {
        0 => format!("notes of {name:x}.{ending}"),
        _ => format!("f{name:x}.{ending}"),
    }
}

/// The handle of an inode: 32 bytes. The last digits of its pieces have the sum 0.
fn handle_text(inode: u64) -> String {
    format!("6189010000005f3a{inode:016x}00000000000001000000000000000100")
}

impl Homes {
    pub(super) fn new(shape: &NfsShape) -> Homes {
        let users = shape.users.max(1) as usize;
        let shares = (1..=users).map(|rank| 1.0 / rank as f64);
        let activity = shares.scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum)
        });
        let mut homes = Homes {
            homes: Vec::with_capacity(users),
            activity: activity.collect(),
            hot_dirs: shape.hot_dirs,
            hot_work: shape.hot_work,
            reuse: shape.reuse,
            file_max: (FILE_MAX * shape.scale).clamp(FILE_MAX_LEAST, FILE_MAX),
            draws: Stream::named(shape.seed, "nfs homes"),
            next_inode: TOP_INODE + 1,
            next_name: 0,
            freed: VecDeque::new(),
            links: BTreeMap::new(),
            dying: BTreeMap::new(),
        };
        // Active users have the large homes.
        let drawn = (0..users).map(|_| homes.log_normal(HOME_FILES_MEDIAN, HOME_FILES_SIGMA, HOME_FILES_MAX));
        let mut sizes: Vec<f64> = drawn.collect();
        sizes.sort_by(|a, b| b.total_cmp(a));
        for (user, files) in sizes.iter().enumerate() {
            homes.add_home(user, (files * shape.scale).ceil().max(1.0) as u64);
        }
        homes
    }

    fn add_home(&mut self, user: usize, files: u64) {
        let inode = self.new_inode();
        let dir = HomeDir { inode, above: TOP_INODE, name: format!("user{user:03}"), files: Vec::new() };
        self.homes.push(Home { dirs: vec![dir], unwritten: Vec::new(), written: None });
        for _ in 0..(files as f64 / FILES_PER_DIR) as u64 {
            self.make_dir(user);
        }
        for _ in 0..files {
            self.make(user, None);
        }
        // They were there before the trace.
        self.homes[user].unwritten.clear();
    }

    pub(super) fn users(&self) -> usize {
        self.homes.len()
    }

    /// A user, by activity.
    pub(super) fn active(&mut self) -> usize {
        let all = self.activity.last().copied().unwrap_or_default();
        let draw = self.draws.unit() * all;
        self.activity.partition_point(|sum| *sum <= draw).min(self.homes.len() - 1)
    }

    /// A directory of a user, mostly one of the few hot ones.
    fn dir(&mut self, user: usize) -> usize {
        let dirs = self.homes[user].dirs.len() as u64;
        let hot = ((dirs as f64 * self.hot_dirs).ceil() as u64).clamp(1, dirs);
        let among = if self.draws.chance(self.hot_work) { hot } else { dirs };
        self.draws.below(among) as usize
    }

    /// A file of a user.
    pub(super) fn file(&mut self, user: usize) -> Option<Place> {
        (0..TRIES).find_map(|_| {
            let dir = self.dir(user);
            let files = self.homes[user].dirs[dir].files.len() as u64;
            (files > 0).then(|| Place { user, dir, file: self.draws.below(files) as usize })
        })
    }

    /// A file of some active user who has any.
    pub(super) fn any_file(&mut self) -> Option<(usize, Place)> {
        (0..TRIES).find_map(|_| {
            let user = self.active();
            self.file(user).map(|place| (user, place))
        })
    }

    /// The file whose time is over for the longest time.
    pub(super) fn dead(&mut self, now: u64) -> Option<(usize, Place)> {
        let ((_, name), (user, dir)) = self.dying.first_key_value().filter(|((dies, _), _)| *dies <= now)?;
        let (user, dir) = (*user, *dir);
        let file = self.homes[user].dirs[dir].files.iter().position(|file| file.name == *name)?;
        Some((user, Place { user, dir, file }))
    }

    /// The newest file in the directory of a file, if it is another one.
    pub(super) fn newest_beside(&self, place: Place) -> Option<Place> {
        let newest = self.homes[place.user].dirs[place.dir].files.len() - 1;
        (newest != place.file).then_some(Place { file: newest, ..place })
    }

    /// A name that the trace does not tell of before, in a directory of a user: handle of the directory, name.
    pub(super) fn unknown(&mut self, user: usize) -> (String, String) {
        let (dir, name) = (self.dir(user), self.new_name());
        (self.homes[user].dirs[dir].handle(), name_text(name))
    }

    /// A file with its directory.
    pub(super) fn at(&self, place: Place) -> (&HomeDir, &HomeFile) {
        let dir = &self.homes[place.user].dirs[place.dir];
        (dir, &dir.files[place.file])
    }

    /// A directory: handle of the one above it, name, handle.
    pub(super) fn directory(&mut self, user: usize) -> (String, String, String) {
        let dir = self.dir(user);
        let dir = &self.homes[user].dirs[dir];
        (handle_text(dir.above), dir.name.clone(), dir.handle())
    }

    /// Makes a directory: handle of the one above it, name, handle.
    pub(super) fn make_dir(&mut self, user: usize) -> (String, String, String) {
        let above = self.dir(user);
        let above = self.homes[user].dirs[above].inode;
        let (inode, number) = (self.new_inode(), self.new_name());
        let dir = HomeDir { inode, above, name: format!("d{number:x}"), files: Vec::new() };
        let told = (handle_text(above), dir.name.clone(), dir.handle());
        self.homes[user].dirs.push(dir);
        told
    }

    /// Makes a file that is to be written.
    pub(super) fn make_file(&mut self, user: usize, now: u64) -> Place {
        let dies = self.death(now);
        self.make(user, dies)
    }

    fn make(&mut self, user: usize, dies: Option<u64>) -> Place {
        let size = self.log_normal(FILE_MEDIAN, FILE_SIGMA, self.file_max) as u64;
        let reused = if self.draws.chance(self.reuse) { self.freed.pop_front() } else { None };
        let inode = reused.unwrap_or_else(|| self.new_inode());
        self.homes[user].unwritten.push((inode, 0, size));
        let (name, dir) = (self.new_name(), self.dir(user));
        self.put(user, dir, HomeFile { inode, name, size, dies })
    }

    /// When a new file goes; `None`: it outlives the trace. The logarithm of lifetimes is uniform.
    fn death(&mut self, now: u64) -> Option<u64> {
        let is_staying = self.draws.chance(STAYING);
        let lifetime = LIFETIME_LEAST * (LIFETIME_MOST / LIFETIME_LEAST).powf(self.draws.unit());
        (!is_staying).then_some(now + lifetime as u64)
    }

    fn put(&mut self, user: usize, dir: usize, file: HomeFile) -> Place {
        if let Some(dies) = file.dies {
            self.dying.insert((dies, file.name), (user, dir));
        }
        let files = &mut self.homes[user].dirs[dir].files;
        files.push(file);
        Place { user, dir, file: files.len() - 1 }
    }

    /// Takes a name away, but not the file.
    pub(super) fn detach(&mut self, place: Place) -> HomeFile {
        let file = self.homes[place.user].dirs[place.dir].files.swap_remove(place.file);
        if let Some(dies) = file.dies {
            self.dying.remove(&(dies, file.name));
        }
        file
    }

    /// Gives a file a new name.
    pub(super) fn attach(&mut self, user: usize, file: HomeFile) -> Place {
        let (dir, name) = (self.dir(user), self.new_name());
        self.put(user, dir, HomeFile { name, ..file })
    }

    /// Gives a file the name of another one, which goes. The file lives as long as that one would.
    pub(super) fn replace(&mut self, place: Place, file: HomeFile) -> Place {
        let old = self.detach(place);
        self.free(place.user, old.inode);
        self.put(place.user, place.dir, HomeFile { name: old.name, dies: old.dies, ..file })
    }

    /// Gives a file one more name.
    pub(super) fn link(&mut self, user: usize, place: Place, now: u64) -> Place {
        let file = *self.at(place).1;
        *self.links.entry(file.inode).or_insert(1) += 1;
        let dies = self.death(now);
        self.attach(user, HomeFile { dies, ..file })
    }

    /// Removes a name, and the file with its last one: handle of the directory, name.
    pub(super) fn take(&mut self, place: Place) -> (String, String) {
        let dir = self.at(place).0.handle();
        let file = self.detach(place);
        self.free(place.user, file.inode);
        (dir, file.name())
    }

    fn free(&mut self, user: usize, inode: u64) {
        if let Some(names) = self.links.get_mut(&inode) {
            *names -= 1;
            if *names > 1 {
                return;
            }
            self.links.remove(&inode);
            return;
        }
        let home = &mut self.homes[user];
        home.unwritten.retain(|(unwritten, ..)| *unwritten != inode);
        home.written.take_if(|(written, _)| *written == inode);
        self.freed.push_back(inode);
        if self.freed.len() > FREED_MAX {
            self.freed.pop_front();
        }
    }

    /// The next write of a user: handle, offset, bytes, whether it is the last one of its file. The newest file is
    /// written to its end first. With no file to write, the last one is written anew from its start: the same few files
    /// are written again and again (Roselli, Lorch and Anderson, USENIX 2000).
    pub(super) fn next_write(&mut self, user: usize, longest: u64) -> Option<(String, u64, u64, bool)> {
        if self.homes[user].unwritten.is_empty() {
            let (inode, size) = match self.homes[user].written {
                Some(written) => written,
                None => self.file(user).map(|place| (self.at(place).1.inode, self.at(place).1.size))?,
            };
            self.homes[user].unwritten.push((inode, 0, size));
        }
        let home = &mut self.homes[user];
        let (inode, written, size) = home.unwritten.pop()?;
        let count = (size - written).min(longest);
        let is_last = written + count == size;
        match is_last {
            true => home.written = Some((inode, size)),
            false => home.unwritten.push((inode, written + count, size)),
        }
        Some((handle_text(inode), written, count, is_last))
    }

    fn new_inode(&mut self) -> u64 {
        self.next_inode += 1;
        self.next_inode
    }

    fn new_name(&mut self) -> u64 {
        self.next_name += 1;
        self.next_name
    }

    /// A log-normal draw (Box and Muller 1958), at least 1.
    fn log_normal(&mut self, median: f64, sigma: f64, most: f64) -> f64 {
        let (radius, angle) = ((2.0 * self.draws.exponential()).sqrt(), self.draws.unit() * std::f64::consts::TAU);
        (median * (sigma * radius * angle.cos()).exp()).clamp(1.0, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_median_and_the_spread_of_lair62() {
        let mut homes = Homes::new(&NfsShape::tiny(3));
        let mut sizes: Vec<f64> = (0..200_000).map(|_| homes.log_normal(FILE_MEDIAN, FILE_SIGMA, FILE_MAX)).collect();
        sizes.sort_by(f64::total_cmp);
        let (median, mean) = (sizes[sizes.len() / 2], sizes.iter().sum::<f64>() / sizes.len() as f64);
        assert!((3_500.0..3_900.0).contains(&median), "{median}");
        assert!((150_000.0..400_000.0).contains(&mean), "{mean}");
    }

    #[test]
    fn the_first_user_is_the_most_active_one() {
        let mut homes = Homes::new(&NfsShape { users: 188, ..NfsShape::tiny(3) });
        let mut counts = [0; 188];
        (0..100_000).for_each(|_| counts[homes.active()] += 1);
        // Zipf's law: a share of 1 / (1 + 1/2 + ... + 1/188) = 0.172 for the first, half of it for the second.
        assert!((16_500..17_900).contains(&counts[0]), "{}", counts[0]);
        assert!((8_100..9_100).contains(&counts[1]), "{}", counts[1]);
    }
}
