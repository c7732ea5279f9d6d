import type { Binding, TableFamily } from './binding.ts';

/** The netfilter hooks of base chains. */
export type Hook = 'prerouting' | 'input' | 'forward' | 'output' | 'postrouting' | 'ingress' | 'egress';

/** The properties of a base chain. */
export interface BaseChainProperties {
  /** filter, nat or route. */
  type: string;
  hook: Hook;
  priority: number;
  policy: 'accept' | 'drop';
}

/** One rule. */
export interface RuleSnapshot {
  handle: number;
  comment: string | null;
  /**
   * 16 hex digits: a hash of everything the rule does, without its comment and the values of its
   * counters. Equal rules have the same digest, wherever they stand: it includes the members of
   * anonymous sets, but not their names.
   */
  digest: string;
  /** The rule's first anonymous counter; null without one. */
  packets: bigint | null;
  bytes: bigint | null;
}

/** One chain with its rules in order. */
export interface ChainSnapshot {
  name: string;
  handle: number;
  base: BaseChainProperties | null;
  rules: RuleSnapshot[];
}

/** One set or map. */
export interface SetSnapshot {
  name: string;
  handle: number;
  /** Length of a key in bytes. */
  keyLength: number;
  /** NFT_SET_* of linux/netfilter/nf_tables.h. */
  flags: number;
  isMap: boolean;
  isInterval: boolean;
  isAnonymous: boolean;
  /** Its elements may have a timeout. */
  hasTimeout: boolean;
  /**
   * Number of elements according to the kernel; null before Linux 6.15, which does not report it.
   */
  elementCount: number | null;
}

/** A table as of one generation. */
export interface TableSnapshot {
  generation: number;
  /** The table's chains are switched off (flag `dormant`, nft(8)). */
  isDormant: boolean;
  chains: ChainSnapshot[];
  sets: SetSnapshot[];
}

/** Some chains of a table, as of one generation. */
export type ChainsSnapshot = Pick<TableSnapshot, 'generation' | 'chains'>;

interface NativeSnapshot {
  generation: number;
  dormant: number;
  chains: {
    name: string;
    handle: number;
    base: { type: string; hook: number; priority: number; policy: number } | null;
    rules: {
      handle: number;
      comment: string | null;
      digest: string;
      packets: string | null;
      bytes: string | null;
    }[];
  }[];
  sets: { name: string; handle: number; keyLength: number; flags: number; elementCount: number | null }[];
}

// Hooks by number: linux/netfilter.h (nf_inet_hooks, nf_dev_hooks), linux/netfilter_arp.h.
const inetHooks: readonly Hook[] = ['prerouting', 'input', 'forward', 'output', 'postrouting', 'ingress'];
const hooks: Record<TableFamily, readonly Hook[]> = {
  inet: inetHooks,
  ip: inetHooks,
  ip6: inetHooks,
  bridge: inetHooks,
  arp: ['input', 'output', 'forward'],
  netdev: ['ingress', 'egress'],
};

/** Converts the addon's JSON; null if the table does not exist. */
export function toSnapshot(json: string, family: TableFamily, binding: Binding): TableSnapshot | null {
  const native: NativeSnapshot | null = JSON.parse(json);
  if (!native) return null;
  const { anonymous, interval, map, object, timeout } = binding.setFlags;
  return {
    generation: native.generation,
    isDormant: native.dormant !== 0,
    chains: native.chains.map((chain) => ({
      ...chain,
      base: chain.base && {
        ...chain.base,
        hook: toHook(family, chain.base.hook),
        policy: chain.base.policy === binding.verdicts.accept ? 'accept' : 'drop',
      },
      rules: chain.rules.map((rule) => ({
        ...rule,
        packets: rule.packets === null ? null : BigInt(rule.packets),
        bytes: rule.bytes === null ? null : BigInt(rule.bytes),
      })),
    })),
    sets: native.sets.map((set) => ({
      ...set,
      isMap: (set.flags & (map | object)) !== 0,
      isInterval: (set.flags & interval) !== 0,
      isAnonymous: (set.flags & anonymous) !== 0,
      hasTimeout: (set.flags & timeout) !== 0,
    })),
  };
}

/** The kernel's number of a hook. Throws a TypeError if the family does not have it. */
export function hookNumber(family: TableFamily, hook: Hook): number {
  const found = hooks[family].indexOf(hook);
  if (found < 0) throw new TypeError(`family ${family} has no hook ${String(hook)}`);
  return found;
}

function toHook(family: TableFamily, hook: number): Hook {
  const name = hooks[family][hook];
  if (!name) throw new Error(`unknown hook ${hook} in family ${family}`);
  return name;
}
