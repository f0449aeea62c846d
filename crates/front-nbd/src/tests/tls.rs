//! TLS: which peers are believed, what is served in which mode, and that contents come through.

use super::*;
use crate::proto::wire::rep;
use crate::proto::{ClientError, TlsMode};
use crate::tls::{ClientTls, Identity, ServerTls};
use esker_rt::net::Address;
use esker_rt::real::{Reactor, RealConfig};

/// An authority and what it signed.
struct Authority {
    issuer: rcgen::Certificate,
    key: rcgen::KeyPair,
}

/// A certificate and its key as PEM text.
struct Papers {
    chain: String,
    key: String,
}

impl Papers {
    fn identity(&self) -> Identity<'_> {
        Identity { chain: self.chain.as_bytes(), key: self.key.as_bytes() }
    }
}

impl Authority {
    fn new() -> Authority {
        let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        Authority { issuer: params.self_signed(&key).unwrap(), key }
    }

    fn sign(&self, name: &str) -> Papers {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec![name.to_string()]).unwrap();
        let signed = params.signed_by(&key, &self.issuer, &self.key).unwrap();
        Papers { chain: signed.pem(), key: key.serialize_pem() }
    }

    fn pem(&self) -> String {
        self.issuer.pem()
    }
}

fn in_world<T: 'static, Fut: Future<Output = T> + 'static>(scenario: impl FnOnce(Rt) -> Fut) -> T {
    let reactor = Reactor::new(RealConfig::seeded(3)).unwrap();
    reactor.block_on(scenario(reactor.rt()))
}

fn secure_site(rt: &Rt, tls: ServerTls) -> Site {
    let (pool, disk) = (Pool::default(), Rc::new(Disk::fast(rt)));
    let exports = vec![Export::new("disk", disk.clone())];
    let server = Server::with_tls(rt, &pool, exports, Config::production(), Some(tls)).unwrap();
    Site { rt: rt.clone(), pool, disk, server }
}

async fn secure_client(site: &Site, tls: &ClientTls) -> Result<Client, Fault> {
    let (near, _closing) = site.wire().await;
    Client::connect_tls(&site.rt, &site.pool, near, "disk", tls).await
}

#[test]
fn a_load_inside_tls_reads_what_it_wrote_and_its_copies_are_counted_apart() {
    in_world(|rt| async move {
        let authority = Authority::new();
        let papers = authority.sign("localhost");
        let site = secure_site(&rt, ServerTls::new(TlsMode::Require, papers.identity(), None).unwrap());
        let tls = ClientTls::new("localhost", authority.pem().as_bytes(), None).unwrap();
        let client = secure_client(&site, &tls).await.unwrap();
        let client = loads(&rt, &site.pool, client, 4, 512).await;
        let mut content = vec![0; 3 << 20];
        rt.rng("content").fill(&mut content);
        let part = payload(&site.pool, content.len(), |out| out.copy_from_slice(&content));
        client.write(4 << 20, part, true).await.unwrap();
        assert!(client.read(r(4 << 20, 3 << 20)).await.unwrap()[..3 << 20] == content, "other bytes came back");
        assert_eq!(site.pool.bounced(), 0, "below TLS nothing is copied");
        assert!(site.server.secured_bytes() > 6 << 20, "{}", site.server.secured_bytes());
        client.disconnect().await.unwrap();
    });
}

#[test]
fn sockets_carry_tls() {
    let dir = tempfile::tempdir().unwrap();
    let address = Address::Unix(dir.path().join("nbd.sock"));
    in_world(|rt| async move {
        let authority = Authority::new();
        let papers = authority.sign("localhost");
        let site = secure_site(&rt, ServerTls::new(TlsMode::On, papers.identity(), None).unwrap());
        let listener = Rc::new(crate::listen::listen(&rt, &address).unwrap());
        let (server, accepting) = (site.server.clone(), listener.clone());
        let serving = rt.spawn("serve", async move { server.serve(&accepting).await });
        let tls = ClientTls::new("localhost", authority.pem().as_bytes(), None).unwrap();
        let stream = Stream::connect(&rt, listener.address()).unwrap();
        let client = Client::connect_tls(&rt, &site.pool, stream, "", &tls).await.unwrap();
        loads(&rt, &site.pool, client, 4, 256).await.disconnect().await.unwrap();
        assert!(site.server.secured_bytes() > 256 << 10, "{}", site.server.secured_bytes());
        site.server.stop().await;
        serving.await;
    });
}

#[test]
fn modes_decide_who_is_served_in_the_clear() {
    in_world(|rt| async move {
        let papers = Authority::new().sign("localhost");
        for (mode, served) in [(TlsMode::On, true), (TlsMode::Require, false)] {
            let site = secure_site(&rt, ServerTls::new(mode, papers.identity(), None).unwrap());
            let (near, _closing) = site.wire().await;
            match Client::connect(&rt, &site.pool, near, "disk").await {
                Ok(client) => assert!(served && client.read(r(0, 512)).await.is_ok()),
                Err(Fault::Protocol(ClientError::Refused { kind, .. })) => {
                    assert!(!served && kind == rep::ERR_TLS_REQD);
                }
                Err(other) => panic!("{other}"),
            }
        }
        let site = Site::new(&rt, Disk::fast(&rt), Config::production());
        let tls = ClientTls::new("localhost", Authority::new().pem().as_bytes(), None).unwrap();
        let refused = secure_client(&site, &tls).await.err().unwrap();
        assert!(matches!(refused, Fault::Protocol(ClientError::NoTls(_))), "{refused}");
    });
}

#[test]
fn strangers_are_not_believed() {
    in_world(|rt| async move {
        let (authority, stranger) = (Authority::new(), Authority::new());
        let papers = authority.sign("localhost");
        let site = secure_site(&rt, ServerTls::new(TlsMode::On, papers.identity(), None).unwrap());
        for (name, roots) in [("localhost", &stranger), ("elsewhere", &authority)] {
            let tls = ClientTls::new(name, roots.pem().as_bytes(), None).unwrap();
            let fault = secure_client(&site, &tls).await.err().unwrap();
            assert!(matches!(fault, Fault::Io(_)), "{name}: {fault}");
        }
        let believed = authority.pem();
        let strict = ServerTls::new(TlsMode::On, papers.identity(), Some(believed.as_bytes())).unwrap();
        let site = secure_site(&rt, strict);
        let (known, unknown) = (authority.sign("client"), stranger.sign("client"));
        for (shown, served) in [(Some(&known), true), (Some(&unknown), false), (None, false)] {
            let tls = ClientTls::new("localhost", believed.as_bytes(), shown.map(Papers::identity)).unwrap();
            // In TLS 1.3 a client hears only after its part of the handshake that it is not believed.
            let read = match secure_client(&site, &tls).await {
                Ok(client) => client.read(r(0, 512)).await.map(drop),
                Err(fault) => Err(fault),
            };
            assert_eq!(read.is_ok(), served);
        }
    });
}

#[test]
fn only_subjects_that_are_named_are_served_and_told() {
    in_world(|rt| async move {
        let authority = Authority::new();
        let (papers, believed) = (authority.sign("localhost"), authority.pem());
        let shown = authority.sign("client");
        let subject = "CN=rcgen self signed cert".to_string();
        for (allowed, served) in [
            (vec![], true),
            (vec!["CN=other".to_string()], false),
            (vec!["CN=other".to_string(), subject.clone()], true),
        ] {
            let tls = ServerTls::new(TlsMode::Require, papers.identity(), Some(believed.as_bytes())).unwrap();
            let site = secure_site(&rt, tls.for_subjects(&allowed));
            let tls = ClientTls::new("localhost", believed.as_bytes(), Some(shown.identity())).unwrap();
            let client = secure_client(&site, &tls).await;
            assert_eq!(client.is_ok(), served, "{allowed:?}");
            if served {
                assert_eq!(site.server.clients()[0].subject.as_ref(), Some(&subject));
            }
        }
    });
}

#[test]
fn what_is_sent_in_the_clear_after_the_agreement_ends_the_connection() {
    use crate::proto::option::encode;
    use crate::proto::wire::opt;
    in_world(|rt| async move {
        let papers = Authority::new().sign("localhost");
        let site = secure_site(&rt, ServerTls::new(TlsMode::On, papers.identity(), None).unwrap());
        let (near, closing) = site.wire().await;
        let sneaked = [&3u32.to_be_bytes()[..], &encode(opt::STARTTLS, &[]), &encode(opt::LIST, &[])].concat();
        near.write_all(vec![Slice::heap(sneaked)]).await.unwrap();
        let closing = closing.await;
        assert!(matches!(closing, Closing::Failed(_)), "{closing}");
    });
}

#[test]
fn papers_that_cannot_be_read_are_named() {
    let papers = Authority::new().sign("localhost");
    let (chain, key) = (papers.chain.as_bytes(), papers.key.as_bytes());
    for (identity, what) in [
        (Identity { chain, key: b"nothing" }, "private key cannot be read"),
        (Identity { chain: b"nothing", key }, "certificate cannot be read: there is none in the text"),
    ] {
        let error = ServerTls::new(TlsMode::On, identity, None).err().unwrap().to_string();
        assert!(error.contains(what), "{error}");
    }
    let other = Authority::new().sign("localhost");
    let mixed = Identity { chain, key: other.key.as_bytes() };
    let error = ServerTls::new(TlsMode::On, mixed, None).err().unwrap().to_string();
    assert!(error.contains("certificate with its key cannot be used"), "{error}");
}
