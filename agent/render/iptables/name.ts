import { shortHash } from '../../../lib/sharing/hash.ts';
import type { NamedSet } from '../ruleset.ts';
import { CHAIN_PREFIX, type IpSet, SET_PREFIX } from './tables.ts';

/**
 * XT_EXTENSION_MAXNAMELEN of linux/netfilter/x_tables.h is 29, and iptables refuses what has no
 * room for its NUL.
 */
const MAX_CHAIN = 28;
/** IPSET_MAXNAMELEN of linux/netfilter/ipset/ip_set.h is 32, with its NUL. */
const MAX_SET = 31;

/**
 * What of a chain's name stands before its hash is kept, the policy's words are not: they are in
 * the comments of its rules.
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

/** The name of a chain of the Ruleset; different ones have different names. */
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

/** Such names, each made once; given up where many of them are of chains that are no more. */
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

  /** @param chains how many there are */
  shrink(chains: number): void {
    if (this.#names.size > 2 * chains) this.#names.clear();
  }
}

/** Sets of different types have different names, because ipset swaps equal types only. */
export function toSetName({ name, family, key }: NamedSet, type: IpSet['type']): string {
  const words = name.replace(/-v[46]$/, '').replaceAll(/[^A-Za-z0-9_.-]/g, '_');
  const kind = key === 'service' ? '' : type === 'hash:net' ? 'n' : 'h';
  // Else one byte too long.
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
  return `${name.slice(0, most - hash.length - 1).replace(/-+$/, '')}-${hash}`;
}
