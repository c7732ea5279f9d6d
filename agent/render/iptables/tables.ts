import type { RuleSource } from '../../../apis/compiled.ts';
import type { Family } from '../../../lib/net/address.ts';
import { shortHash } from '../../../lib/sharing/hash.ts';
import type { NamedSet, SetMembers } from '../ruleset.ts';

/**
 * The value of stage 5 for the dataplane iptables: our chains in iptables and ip6tables, and the
 * sets that their rules name. Equal states give equal values, byte for byte; a chain or set that is
 * unchanged since the previous result is the same object.
 */
export interface IptablesRuleset {
  /** The sets of both families, sorted by name. */
  readonly sets: ReadonlyMap<string, IpSet>;
  readonly families: Readonly<Record<Family, readonly IptablesTable[]>>;
}

export type IptablesTableName = 'filter' | 'nat';
export type BuiltinChain = 'INPUT' | 'FORWARD' | 'OUTPUT' | 'POSTROUTING';

/** Our part of one table; a table without such a part is left out. */
export interface IptablesTable {
  readonly name: IptablesTableName;
  /** Each jump is unconditional and the first rule of its built-in chain. */
  readonly jumps: readonly { readonly from: BuiltinChain; readonly to: string }[];
  /** By name; every name begins with CHAIN_PREFIX. */
  readonly chains: ReadonlyMap<string, IptablesChain>;
}

export interface IptablesChain {
  /** At most 28 bytes (XT_EXTENSION_MAXNAMELEN is 29 with its NUL, linux/netfilter/x_tables.h). */
  readonly name: string;
  readonly rules: readonly IptablesRule[];
}

export interface IptablesRule {
  /**
   * The text after `-A CHAIN ` in the output of iptables-save, byte for byte: the kernel's rules
   * are compared with it.
   */
  readonly text: string;
  /** The policy rule whose packets this rule counts; null if it counts for none. */
  readonly counts: CountPurpose | null;
  /** The policy rule to blame if this rule is refused. */
  readonly source: RuleSource | null;
}

export interface CountPurpose {
  /** CompiledRule.id */
  readonly ruleId: string;
  /**
   * `matched`: packets that matched the rule. `record`: those that its records account for (see
   * agent/record/accounting.ts).
   */
  readonly kind: 'matched' | 'record';
}

/** One family of an AddressSet or of a ServiceSet. */
export interface IpSet {
  /**
   * At most 31 bytes; begins with SET_PREFIX. Sets of different types have different names, because
   * a swap needs equal types.
   */
  readonly name: string;
  readonly family: Family;
  /**
   * hash:net if the members include prefixes or the unspecified address; services are hash:ip,port.
   */
  readonly type: 'hash:ip' | 'hash:net' | 'hash:ip,port';
  /** As in NamedSet: packed singles, and prefixes. */
  readonly members: SetMembers;
  /** Seconds of each member; the reconciler does not renew them. Absent: members stay. */
  readonly timeout?: number;
}

/**
 * Prefixes by which all our chains and sets are found, including those of older runs and of runs
 * that crashed.
 */
export const CHAIN_PREFIX = 'NODEWALL-';
export const SET_PREFIX = 'nodewall-';

/**
 * The input of `iptables-restore --noflush` for all tables of one family, in a network namespace
 * without chains of ours; for people and for tests.
 */
export function restoreText(tables: readonly IptablesTable[]): string {
  return tables.map(tableText).join('');
}

function tableText({ name, jumps, chains }: IptablesTable): string {
  const lines = [
    `*${name}`,
    ...[...chains.keys()].map((chain) => `:${chain} - [0:0]`),
    ...jumps.map(({ from, to }) => `-I ${from} 1 -j ${to}`),
    ...[...chains.values()].flatMap((chain) => chain.rules.map(({ text }) => `-A ${chain.name} ${text}`)),
    'COMMIT',
  ];
  return `${lines.join('\n')}\n`;
}

/**
 * XT_EXTENSION_MAXNAMELEN in linux/netfilter/x_tables.h is 29, and iptables refuses a name without
 * room for its NUL.
 */
const MAX_CHAIN = 28;
/** IPSET_MAXNAMELEN in linux/netfilter/ipset/ip_set.h is 32, including the NUL. */
const MAX_SET = 31;

/**
 * The part of a chain's name up to its hash, which is kept. The policy's words after it are
 * dropped; they are in the comments of its rules.
 */
const HASHED = /^[a-z0-9-]+?-[0-9a-f]{10}(?=-|$)/;

const SHORTER: Readonly<Record<string, string>> = {
  ingress: 'in',
  egress: 'out',
  nodeport: 'np',
  baseline: 'base',
  failsafe: 'fs',
  masquerade: 'masq',
};

/** The iptables name of a chain of the Ruleset; different chains have different names. */
export function toChainName(name: string): string {
  const [words = name] = HASHED.exec(name) ?? [];
  const whole = `${CHAIN_PREFIX}${words}`;
  if (whole.length <= MAX_CHAIN) return whole;
  const short = words
    .split('-')
    .map((word) => SHORTER[word] ?? word)
    .join('-');
  return cut(CHAIN_PREFIX, short, MAX_CHAIN, name);
}

/** Caches the results of toChainName. */
export class ChainNames {
  readonly #names = new Map<string, string>();

  readonly of = (name: string): string => {
    let found = this.#names.get(name);
    if (found === undefined) {
      found = toChainName(name);
      this.#names.set(name, found);
    }
    return found;
  };

  /**
   * Clears the cache if it is larger than twice the number of chains.
   * @param chains number of chains in the ruleset
   */
  shrink(chains: number): void {
    if (this.#names.size > 2 * chains) this.#names.clear();
  }
}

/** Sets of different types have different names, because ipset swaps only sets of equal type. */
export function toSetName({ name, family, key }: NamedSet, type: IpSet['type']): string {
  const words = name.replace(/-v[46]$/, '').replaceAll(/[^A-Za-z0-9_.-]/g, '_');
  const kind = key === 'service' ? '' : type === 'hash:net' ? 'n' : 'h';
  // The plural would make the name one byte too long.
  return cut(
    SET_PREFIX,
    `${words.replace(/^services-/, 'service-')}-${kind}${family}`,
    MAX_SET,
    `${name} ${kind}`,
  );
}

function cut(prefix: string, words: string, most: number, whole: string): string {
  const name = `${prefix}${words}`;
  if (name.length <= most) return name;
  const hash = shortHash(10, whole);
  return `${name.slice(0, most - hash.length - 1).replace(/(?<!-)-+$/, '')}-${hash}`;
}
