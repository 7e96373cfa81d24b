use fsdyno_record::Bytes;

use super::*;
use crate::Request;

#[test]
fn every_value_is_stored_in_its_field() {
    let mut request = Request::default();
    for (key, value) in [("cpu", "1/2"), ("ram", "512M"), ("size", "whole"), ("age", "none")] {
        Axis::of(key).unwrap().put(&mut request, value).unwrap();
    }
    assert_eq!(
        (request.guest.cpu.to_string().as_str(), request.guest.ram),
        ("1/2", Bytes(512 << 20))
    );
    assert_eq!((request.size, request.ages.as_slice()), (Size::Whole, [None].as_slice()));
    assert_eq!(request.explicit, ["cpu", "ram", "size"]);
    let error = Axis::of("threads").unwrap().check("0").unwrap_err();
    assert_eq!(error, "expected a whole number from 1 to 512");
    assert!(Axis::of("boot").unwrap().check("warm").unwrap_err().contains("cold, snapshot"));
}

#[test]
fn whole_numbers_out_of_range_give_one_message_for_all_options() {
    let parse = whole_number::<u16>(1..=10_000);
    assert_eq!(parse("2k"), Ok(2000));
    assert_eq!(parse("0").unwrap_err(), "expected a whole number from 1 to 10,000");
    assert_eq!(parse("11k").unwrap_err(), "expected a whole number from 1 to 10,000");
    let error = parse("abc").unwrap_err();
    assert!(
        error.starts_with("'abc' is not a whole number: write one such as 20000, 20k"),
        "{error}"
    );
    assert!(error.ends_with("; expected a number from 1 to 10,000"), "{error}");
}
