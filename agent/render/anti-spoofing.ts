import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { dropsSpoofed, failsafePeers } from '../../apis/exemptions.ts';
import { type Cidr, parseCidr } from '../../lib/net/address.ts';
import { familiesOf, recordRule } from './rule-chain.ts';
import type { SetMatches } from './rule-matches.ts';
import { type Chain, type Match, type NamedSet, type NftRule, plainChain, plainRule } from './ruleset.ts';
import { FORWARD, ownCopies } from './topology.ts';

/**
 * The chain that every spoofed packet goes to, and the owner of its counters, which belong to no
 * policy rule.
 */
export const SPOOFED = 'spoofed';
/** Prefix of the NFLOG messages. */
export const SPOOFED_PREFIX = `nodewall ${SPOOFED}`;

export interface AntiSpoofing {
  /** Rules of the base chain of ingress, before the one for established connections. */
  readonly first: readonly NftRule[];
  /** Behind it. */
  readonly rules: readonly NftRule[];
  /** The base chain of forwarded packets, and the chains that it and `rules` call. */
  readonly chains: readonly Chain[];
  readonly sets: readonly NamedSet[];
}

export const NO_ANTI_SPOOFING: AntiSpoofing = { first: [], rules: [], chains: [], sets: [] };

interface Context {
  readonly state: NodeState;
  readonly config: Config;
  readonly canLog: boolean;
  readonly setMatches: SetMatches;
}

/**
 * Drops packets of pods with the address of a Node, also those that seem to belong to a connection:
 * a pod that makes them up would speak into one between Nodes. Drops new packets with an address of
 * this machine that come in by any interface but lo. The kernel drops the latter too, if they are
 * IPv4 and no sysctl (accept_local, route_localnet) says otherwise.
 */
export function antiSpoofing({ state, config, canLog, setMatches }: Context): AntiSpoofing {
  if (!dropsSpoofed(state, config)) return NO_ANTI_SPOOFING;
  const records = canLog && state.rules.some(({ log }) => log !== null);
  const nodes = setMatches.addresses(failsafePeers('nodes', state), 'saddr', familiesOf(state));
  const toSpoofed = (matches: readonly Match[]): NftRule =>
    plainRule({ kind: 'goto', chain: SPOOFED }, ...matches);
  const fromPods = plainRule(
    { kind: 'jump', chain: PODS },
    { match: 'interfaceGroup', field: 'iifgroup', groups: [config.interfaceGroups.pods], negated: false },
  );
  const notFromLoopback = plainRule({ kind: 'return' }, { match: 'loopback', field: 'iif' });
  const own = plainChain(OWN, [
    notFromLoopback,
    // In a VRF, what the machine sends to itself comes in by the VRF's interface instead of lo.
    plainRule({ kind: 'return' }, { match: 'vrf' }),
    // The machine gets copies of its own multicasts and broadcasts, by the interface that they
    // left.
    ...UNIQUE.map((unique) => toSpoofed([unique, { match: 'local', field: 'daddr' }])),
  ]);
  const pods = plainChain(PODS, [
    notFromLoopback,
    ...ownCopies(config).rules,
    ...nodes.map(({ matches }) => toSpoofed(matches)),
    ...UNIQUE.map((unique) => toSpoofed([unique, OWN_SOURCE])),
  ]);
  const forward = { ...plainChain(FORWARD.chain, [fromPods]), base: FORWARD.base };
  return {
    // Nearly no packet has an own address, so one look-up in the routes is all that others cost.
    first: [fromPods],
    rules: [plainRule({ kind: 'jump', chain: OWN }, OWN_SOURCE)],
    chains: [forward, own, pods, ...spoofed(records ? config.log : null)],
    sets: nodes.flatMap(({ set }) => set ?? []),
  };
}

const OWN = 'anti-spoofing-own';
const PODS = 'anti-spoofing-pods';
const RECORD = `${SPOOFED}-record`;

/**
 * Link-local addresses are unique on one link only: fe80::1 may be this machine on one interface,
 * and the router on another.
 */
const LINK_LOCAL = parseCidr('fe80::/10')?.cidr as Cidr;
/** One match for each family. */
const UNIQUE: readonly Match[] = [
  { match: 'nfproto', family: 4 },
  { match: 'notIn', family: 6, field: 'saddr', cidrs: [LINK_LOCAL] },
];
const OWN_SOURCE: Match = { match: 'local', field: 'saddr' };

/** @param log null: nothing is recorded, as on a node where no rule has logging */
function spoofed(log: Config['log'] | null): Chain[] {
  const counting = (statement: NftRule['statement']): Chain => ({
    ...plainChain(SPOOFED, [{ ...plainRule(statement), counter: true }]),
    ruleId: SPOOFED,
  });
  if (log === null) return [counting({ kind: 'drop' })];
  const record = plainChain(RECORD, [recordRule(SPOOFED_PREFIX, log), plainRule({ kind: 'drop' })]);
  return [counting({ kind: 'goto', chain: RECORD }), { ...record, ruleId: SPOOFED }];
}
