//! Requests for metrics: whatever bytes come, the answer does not change with more of them, and comes within the bound.

use esker_serve::http::{Asked, HEAD_MAX, asked};

const PATHS: &[&str] = &["/metrics"];

const REQUESTS: [&str; 5] = [
    "GET /metrics HTTP/1.1\r\nHost: localhost:9100\r\nAccept: application/openmetrics-text\r\n\r\n",
    "HEAD /metrics?name=x HTTP/1.0\r\n\r\n",
    "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
    "GET / HTTP/1.1\r\nA: b\r\n\tfolded\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    REQUESTS.iter().map(|request| request.as_bytes().to_vec()).collect()
}

pub(crate) fn try_input(input: &[u8]) -> Result<bool, String> {
    let input = &input[..input.len().min(HEAD_MAX)];
    let whole = asked(input, PATHS);
    if whole == Asked::More && input.len() == HEAD_MAX {
        return Err("more is read than the longest head".to_string());
    }
    for cut in 0..input.len() {
        let early = asked(&input[..cut], PATHS);
        if early != Asked::More {
            let same = early == whole || matches!((early, whole), (Asked::Refused(_), Asked::Refused(_)));
            return match same {
                true => Ok(matches!(whole, Asked::Page { .. })),
                false => Err(format!("{early:?} after {cut} bytes, {whole:?} after {}", input.len())),
            };
        }
    }
    Ok(matches!(whole, Asked::Page { .. }))
}
