import type { RuleSource } from '../../../apis/compiled.ts';
import type { Family } from '../../../lib/net/address.ts';
import type { SetMembers } from '../ruleset.ts';

/**
 * Stage 5's value where the dataplane is iptables: what iptables and ip6tables hold of ours, and
 * the sets that their rules name. Equal states give equal values, byte for byte; a chain or set
 * that hasn't changed from one time to the next is the same object.
 */
export interface IptablesRuleset {
  /** Of both families, sorted by name. */
  readonly sets: ReadonlyMap<string, IpSet>;
  readonly families: Readonly<Record<Family, readonly IptablesTable[]>>;
}

export type TableName = 'filter' | 'nat';
export type BuiltinChain = 'INPUT' | 'FORWARD' | 'OUTPUT' | 'POSTROUTING';

/** What one table has of ours; a table without anything is left out. */
export interface IptablesTable {
  readonly name: TableName;
  /** Each is the first rule of its built-in chain: an unconditional jump. */
  readonly jumps: readonly Jump[];
  /** By name; every name begins with CHAIN_PREFIX. */
  readonly chains: ReadonlyMap<string, IptablesChain>;
}

export interface Jump {
  readonly from: BuiltinChain;
  readonly to: string;
}

export interface IptablesChain {
  /** At most 28 bytes (XT_EXTENSION_MAXNAMELEN 29 with its NUL, linux/netfilter/x_tables.h). */
  readonly name: string;
  readonly rules: readonly IptablesRule[];
}

export interface IptablesRule {
  /**
   * What follows `-A CHAIN ` in the output of iptables-save, to the byte: what the kernel holds is
   * compared with it.
   */
  readonly text: string;
  /** The policy rule whose packets this counts; null where it is for no policy rule. */
  readonly counts: Counts | null;
  /** The policy rule to blame if it is refused. */
  readonly source: RuleSource | null;
}

export interface Counts {
  /** CompiledRule.id */
  readonly ruleId: string;
  /**
   * `matched`: packets that matched the rule. `record`: those that its record accounts for (see
   * record/accounting.ts).
   */
  readonly kind: 'matched' | 'record';
}

/** One family of an AddressSet or of a ServiceSet. */
export interface IpSet {
  /**
   * At most 31 bytes; begins with SET_PREFIX. Sets of different type have different names: swap
   * needs equal types.
   */
  readonly name: string;
  readonly family: Family;
  /** hash:net where there are prefixes among the members; services are hash:ip,port. */
  readonly type: 'hash:ip' | 'hash:net' | 'hash:ip,port';
  /** As in NamedSet: packed singles, and prefixes. */
  readonly members: SetMembers;
}

/** All that is ours, of this run, an older one or a crashed one, is found by these. */
export const CHAIN_PREFIX = 'NODEWALL-';
export const SET_PREFIX = 'nodewall-';
