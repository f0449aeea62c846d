//! The subject of an X.509 certificate as text: `CN=backup,O=Acme`. The certificate was verified before; a text that
//! cannot be read is none.

/// Object identifiers of attributes with a short name.
const NAMED: [(&[u8], &str); 7] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 5], "SERIALNUMBER"),
];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OID: u8 = 0x06;
/// The version of a certificate, which is optional.
const VERSION: u8 = 0xa0;

/// The subject, its attributes in their order; none if the bytes are no certificate.
pub(crate) fn of(certificate: &[u8]) -> Option<String> {
    let mut outer = Der(certificate);
    let mut signed = Der(Der(outer.expect(SEQUENCE)?).expect(SEQUENCE)?);
    if signed.0.first() == Some(&VERSION) {
        signed.next()?;
    }
    // Serial number, algorithm, issuer, validity.
    for _ in 0..4 {
        signed.next()?;
    }
    let mut names = Der(signed.expect(SEQUENCE)?);
    let mut texts = Vec::new();
    while !names.0.is_empty() {
        let mut set = Der(names.expect(SET)?);
        while !set.0.is_empty() {
            let mut attribute = Der(set.expect(SEQUENCE)?);
            let kind = attribute.expect(OID)?;
            let (_, value) = attribute.next()?;
            texts.push(format!("{}={}", name(kind), escaped(std::str::from_utf8(value).ok()?)));
        }
    }
    Some(texts.join(","))
}

fn name(kind: &[u8]) -> String {
    let named = NAMED.iter().find(|(bytes, _)| *bytes == kind).map(|(_, name)| name.to_string());
    named.unwrap_or_else(|| kind.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A value cannot look like an attribute of its own.
fn escaped(value: &str) -> String {
    let escape = |char: char| match char {
        ',' | '=' | '\\' | '+' => format!("\\{char}"),
        char if char.is_control() => char.escape_default().to_string(),
        char => char.to_string(),
    };
    value.chars().map(escape).collect()
}

/// Elements in DER form.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next element: its tag and content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (len, rest) = match first {
            0..0x80 => (usize::from(first), rest),
            _ => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                if bytes.is_empty() || bytes.len() > 4 {
                    return None;
                }
                (bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
            }
        };
        let (content, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, content))
    }

    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    fn signed(names: &[(rcgen::DnType, &str)]) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        names.iter().for_each(|(kind, value)| params.distinguished_name.push(kind.clone(), *value));
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn attributes_come_in_their_order_and_cannot_pretend_to_be_others() {
        use rcgen::DnType::{CommonName, OrganizationName};
        let text = of(&signed(&[(CommonName, "backup"), (OrganizationName, "Acme")]));
        assert_eq!(text.as_deref(), Some("CN=backup,O=Acme"));
        let text = of(&signed(&[(CommonName, "x,O=Acme\n")]));
        assert_eq!(text.as_deref(), Some("CN=x\\,O\\=Acme\\n"));
        assert_eq!(of(&signed(&[])).as_deref(), Some(""));
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_subject() {
        let whole = signed(&[(rcgen::DnType::CommonName, "backup")]);
        assert!((0..whole.len()).all(|len| of(&whole[..len]).is_none()));
        assert!(of(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]).is_none());
    }
}
