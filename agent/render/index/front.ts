import { CHANGED_BY_NAT, type FailsafeRules, inOneList } from '../failsafe.ts';
import { protocolChain } from '../name.ts';
import { plainChain, plainRule } from '../plain.ts';
import type { Chain, L4Protocol, Match, NftRule, PortProtocol } from '../ruleset.ts';
import type { Dispatched } from './build.ts';
import { PORT_PROTOCOLS } from './match-entry.ts';

/** The rules that stand before those of an index, for the packets of each protocol. */
export interface IndexFront {
  /** Exemptions. */
  readonly exempt: ReadonlyMap<L4Protocol, readonly NftRule[]>;
  readonly failsafe: ReadonlyMap<PortProtocol, FailsafeRules>;
  /** Whether the failsafe rules may be in chains of their own, which takes FRONT_LEVELS. */
  readonly hasChains: boolean;
}

/** How many chains more may call each other. */
export const FRONT_LEVELS = 3;
/** Up to this many failsafe rules need no chain of their own. */
const SHORT = 3;

/**
 * The index `name` behind its front. What is for one protocol is in the chain that receives the
 * packets of this protocol, so that no other packet is compared with it; or, where the index has no
 * such chain, in the entry chain, behind the rules that lead to such chains. Several failsafe rules
 * are in chains of their own, for packets to a port of the list and for those that NAT has changed.
 */
export function withFront(name: string, index: Dispatched, front: IndexFront): Dispatched {
  const [entry, ...others] = index.chains;
  if (entry === undefined) return index;
  const byName = new Map(others.map((chain) => [chain.name, [chain] as readonly Chain[]]));
  const ofEntry: NftRule[] = [];
  for (const protocol of new Set([...front.exempt.keys(), ...front.failsafe.keys()])) {
    const chain = byName.get(protocolChain(name, protocol))?.[0];
    const exempt = front.exempt.get(protocol) ?? [];
    const port = PORT_PROTOCOLS.find((one) => one === protocol);
    const failsafe = port === undefined ? undefined : front.failsafe.get(port);
    if (chain === undefined) ofEntry.push(...exempt, ...(failsafe === undefined ? [] : inOneList(failsafe)));
    else byName.set(chain.name, behind(chain, { exempt, failsafe, hasChains: front.hasChains }));
  }
  const isOther = entry.rules.findIndex(({ statement }) => statement.kind !== 'goto');
  const gotos = isOther === -1 ? entry.rules.length : isOther;
  const rules = [...entry.rules.slice(0, gotos), ...ofEntry, ...entry.rules.slice(gotos)];
  return { ...index, chains: [{ ...entry, rules }, ...[...byName.values()].flat()] };
}

interface ProtocolFront extends Pick<IndexFront, 'hasChains'> {
  readonly exempt: readonly NftRule[];
  readonly failsafe: FailsafeRules | undefined;
}

/** The chain that receives the packets of one protocol, behind their front; it comes first. */
function behind(chain: Chain, { exempt, failsafe, hasChains }: ProtocolFront): readonly Chain[] {
  if (failsafe === undefined || !hasChains || countOf(failsafe) <= SHORT) {
    const before = failsafe === undefined ? exempt : [...exempt, ...inOneList(failsafe)];
    return [{ ...chain, rules: [...before.map(withKnownProtocol), ...chain.rules] }];
  }
  const rest = { ...chain, name: `${chain.name}-rules` };
  const onRest = plainRule({ kind: 'goto', chain: rest.name });
  const natChain = `${chain.name}-to-failsafe-nat`;
  const answerChain = `${chain.name}-to-failsafe-reply`;
  const others = [
    ...(failsafe.nat.length === 0 ? [] : [plainRule({ kind: 'goto', chain: natChain }, CHANGED_BY_NAT)]),
    ...(failsafe.answers.length === 0
      ? []
      : [plainRule({ kind: 'goto', chain: answerChain }, failsafe.mayAnswer)]),
    onRest,
  ];
  const portsChain = `${chain.name}-to-failsafe`;
  const ports = failsafe.guards.map((guard) => plainRule({ kind: 'goto', chain: portsChain }, guard));
  // All by goto: a packet of the list must not come back to the rules that it skips.
  const chains: [name: string, rules: readonly NftRule[], last: readonly NftRule[]][] = [
    [portsChain, failsafe.ports, others],
    [natChain, failsafe.nat, [onRest]],
    [answerChain, failsafe.answers, [onRest]],
  ];
  return [
    { ...chain, rules: [...[...exempt, ...ports].map(withKnownProtocol), ...others] },
    ...chains.flatMap(([name, rules, last]) =>
      rules.length === 0 ? [] : [plainChain(name, [...rules.map(withKnownProtocol), ...last])],
    ),
    rest,
  ];
}

function countOf({ ports, nat, answers }: FailsafeRules): number {
  return ports.length + nat.length + answers.length;
}

function withKnownProtocol(rule: NftRule): NftRule {
  const known = (match: Match): Match =>
    match.match === 'port' ? { ...match, isProtocolKnown: true } : match;
  return { ...rule, matches: rule.matches.map(known) };
}
