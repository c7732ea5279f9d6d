import { shortHash } from '../../../lib/sharing/hash.ts';
import type { NamedSet } from '../ruleset.ts';
import { CHAIN_PREFIX, type IpSet, SET_PREFIX } from './tables.ts';

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
