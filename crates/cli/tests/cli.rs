//! Command lines, what they print and their exit status: the cases are in `tests/cmd`.

#[test]
fn command_lines_print_what_their_cases_say() {
    let cases = trycmd::TestCases::new();
    cases.env("COLUMNS", "100");
    cases.case("tests/cmd/*.trycmd");
}
