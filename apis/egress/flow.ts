/**
 * A connection through egress gateways as `explain` is asked about it, and the answer. The shapes
 * are those of the command line.
 */
import type { EgressDropReason } from './node-egress.ts';
import type { EgressPolicySpec, EgressStage } from './objects.ts';

/** One new connection, after destination NAT. Exactly one of `pod` and `src` is there. */
export interface EgressFlow {
  readonly traffic: 'Egress';
  /** `namespace/name`. */
  readonly pod?: string;
  readonly src?: string;
  readonly dst: string;
  /** No policy tests protocol and ports. */
  readonly protocol?: string | number;
  readonly srcPort?: number;
  readonly dstPort?: number;
}

type EgressReason = 'policy' | 'inside' | 'host' | 'no-policy' | EgressDropReason;

export interface EgressAnswer {
  readonly verdict: 'Gateway' | 'Direct' | 'Drop';
  /** `namespace/name` of an EgressPolicy, the name of a ClusterEgressPolicy; null: none decided. */
  readonly policy: string | null;
  readonly gateway: string | null;
  /** The node that the connection leaves by; null: none. With `nodes`: one of several. */
  readonly node: string | null;
  /**
   * The source address that the destination sees; null: none, or not known (that of an interface).
   * With `addresses`: one of several.
   */
  readonly address: string | null;
  readonly reason: EgressReason;
  /**
   * All gateway nodes, where the kernel chooses among several by a hash of source and destination.
   */
  readonly nodes?: readonly string[];
  /** All addresses, where the kernel chooses among several by a hash. */
  readonly addresses?: readonly string[];
  /** Policies in mode Audit that would have decided before, in order; absent: none. */
  readonly audited?: readonly { readonly policy: string; readonly action: EgressPolicySpec['action'] }[];
}

/** One policy that was tested, in order, and the result. */
export interface EgressConsidered {
  readonly policy: string;
  readonly stage: EgressStage;
  readonly priority: number;
  readonly action: EgressPolicySpec['action'];
  /** Null: pods and destination matched. */
  readonly mismatch: 'pods' | 'destination' | null;
  readonly outcome: 'no match' | 'audited' | 'decided';
}

export interface EgressExplanation extends EgressAnswer {
  /** The policies that were tested, in order, up to the one that decided; only if asked for. */
  readonly considered?: readonly EgressConsidered[];
}
