//! The real kube-proxy does what it did when it was recorded.

use signpost_cluster::truth::Recording;

use crate::bed::Bed;

pub(crate) fn holds(bed: &Bed, recording: Recording) {
    let (text, holds) = bed.cluster(recording.mode()).matrix(recording).unwrap();
    println!("{text}");
    assert!(holds, "not as recorded:\n{text}");
}
