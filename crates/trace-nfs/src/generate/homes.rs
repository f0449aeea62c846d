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
/// Files in a directory, on average.
const FILES_PER_DIR: f64 = 12.0;
/// Handles of removed files that wait for a new one.
const FREED_MAX: usize = 4096;
/// Directories that are tried before a user counts as one without files.
const TRIES: usize = 8;
/// Users of whom the one with the most files beyond the usual loses one.
const CANDIDATES: usize = 4;
/// The directory above all homes.
const TOP_INODE: u64 = 1;

/// A file under one of its names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HomeFile {
    inode: u64,
    name: u64,
    pub(super) size: u64,
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
    files: u64,
    files_usual: u64,
    /// New files that are not written to their end: inode, written bytes, size.
    unwritten: VecDeque<(u64, u64, u64)>,
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
    draws: Stream,
    next_inode: u64,
    next_name: u64,
    freed: VecDeque<u64>,
    /// Names of files with several.
    links: BTreeMap<u64, u32>,
}

impl HomeFile {
    pub(super) fn handle(&self) -> String {
        handle_text(self.inode)
    }

    pub(super) fn name(&self) -> String {
        let ending = ["c", "o", "tex", "mbox", "lock", "txt"][(self.name % 6) as usize];
        match self.name % 16 {
            0 => format!("notes of {:x}.{ending}", self.name),
            _ => format!("f{:x}.{ending}", self.name),
        }
    }
}

impl HomeDir {
    pub(super) fn handle(&self) -> String {
        handle_text(self.inode)
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
            draws: Stream::named(shape.seed, "nfs homes"),
            next_inode: TOP_INODE + 1,
            next_name: 0,
            freed: VecDeque::new(),
            links: BTreeMap::new(),
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
        self.homes.push(Home { dirs: vec![dir], files: 0, files_usual: files, unwritten: VecDeque::new() });
        for _ in 0..(files as f64 / FILES_PER_DIR) as u64 {
            self.make_dir(user);
        }
        for _ in 0..files {
            self.make_file(user);
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

    /// A file to remove, of a user with many.
    pub(super) fn victim(&mut self) -> Option<(usize, Place)> {
        let users: Vec<usize> = (0..CANDIDATES).map(|_| self.active()).collect();
        let user = users.into_iter().max_by_key(|user| {
            let home = &self.homes[*user];
            home.files as i64 - home.files_usual as i64
        })?;
        self.file(user).map(|place| (user, place)).or_else(|| self.any_file())
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
    pub(super) fn make_file(&mut self, user: usize) -> Place {
        let size = self.log_normal(FILE_MEDIAN, FILE_SIGMA, FILE_MAX) as u64;
        let reused = if self.draws.chance(self.reuse) { self.freed.pop_front() } else { None };
        let inode = reused.unwrap_or_else(|| self.new_inode());
        let file = HomeFile { inode, name: self.new_name(), size };
        self.homes[user].unwritten.push_back((inode, 0, size));
        let dir = self.dir(user);
        self.put(user, dir, file)
    }

    fn put(&mut self, user: usize, dir: usize, file: HomeFile) -> Place {
        let home = &mut self.homes[user];
        home.files += 1;
        home.dirs[dir].files.push(file);
        Place { user, dir, file: home.dirs[dir].files.len() - 1 }
    }

    /// Takes a name away, but not the file.
    pub(super) fn detach(&mut self, place: Place) -> HomeFile {
        let home = &mut self.homes[place.user];
        home.files -= 1;
        home.dirs[place.dir].files.swap_remove(place.file)
    }

    /// Gives a file a new name, or that of another file, which goes.
    pub(super) fn attach(&mut self, user: usize, file: HomeFile, onto: Option<Place>) -> Place {
        match onto {
            Some(place) => {
                let old = self.homes[place.user].dirs[place.dir].files[place.file];
                self.homes[place.user].dirs[place.dir].files[place.file] = HomeFile { name: old.name, ..file };
                self.free(place.user, old.inode);
                place
            }
            None => {
                let (dir, name) = (self.dir(user), self.new_name());
                self.put(user, dir, HomeFile { name, ..file })
            }
        }
    }

    /// Gives a file one more name.
    pub(super) fn link(&mut self, user: usize, place: Place) -> Place {
        let file = *self.at(place).1;
        *self.links.entry(file.inode).or_insert(1) += 1;
        self.attach(user, file, None)
    }

    /// Removes a name, and the file with its last one.
    pub(super) fn take(&mut self, place: Place) {
        let file = self.detach(place);
        self.free(place.user, file.inode);
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
        self.homes[user].unwritten.retain(|(unwritten, ..)| *unwritten != inode);
        self.freed.push_back(inode);
        if self.freed.len() > FREED_MAX {
            self.freed.pop_front();
        }
    }

    /// The next write of a user: handle, offset, bytes. New files are written to their end first.
    pub(super) fn next_write(&mut self, user: usize, longest: u64, change: u64) -> Option<(String, u64, u64)> {
        if let Some((inode, written, size)) = self.homes[user].unwritten.pop_front() {
            let count = (size - written).min(longest);
            if written + count < size {
                self.homes[user].unwritten.push_front((inode, written + count, size));
            }
            return Some((handle_text(inode), written, count));
        }
        let (_, place) = self.file(user).map(|place| (user, place)).or_else(|| self.any_file())?;
        let file = *self.at(place).1;
        let offset = self.draws.below(file.size / change + 1) * change;
        Some((file.handle(), offset, (file.size - offset).clamp(1, change)))
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
