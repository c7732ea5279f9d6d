/**
 * Annotation of a Node that `nodewall egress drain` sets to `true`: the node is to give up all its
 * slots, and gets no others, as long as it is there.
 */
export const EGRESS_DRAIN = 'nodewall.io/egress-drain';
