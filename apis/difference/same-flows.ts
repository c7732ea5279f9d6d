import { isDeepStrictEqual } from 'node:util';
import { addToList } from '../../lib/sharing/lists.ts';
import type { CompiledRule, NodeState, PortMatch } from '../compiled.ts';

/** Whether a rule may match flows of others, by direction, traffic, protocols and ports alone. */
export function mayMatchFlowsOf(rules: readonly CompiledRule[]): (rule: CompiledRule) => boolean {
  const ports = new Map<string, PortMatch[]>();
  const whole = new Set<string>();
  for (const rule of rules) {
    const list = listOf(rule);
    if (rule.services.length === 0) whole.add(list);
    for (const service of rule.services) addToList(ports, `${list} ${service.protocol}`, service);
  }
  const lists = new Set(rules.map(listOf));
  return (rule) => {
    const list = listOf(rule);
    if (whole.has(list)) return true;
    if (rule.services.length === 0) return lists.has(list);
    return rule.services.some(
      (own) => ports.get(`${list} ${own.protocol}`)?.some((one) => overlap(own, one)) === true,
    );
  };
}

/**
 * Whether a rule may decide flows whose verdict differs between two states: those that no rule
 * matches which only one state has, or with other members, have the same verdict in both. States
 * of one compiler share what did not change; of others all rules differ.
 */
export function mayDecideDifference(before: NodeState, after: NodeState): (rule: CompiledRule) => boolean {
  if (!isSameBeforeRules(before, after)) return () => true;
  const [old, now] = [new Set(before.rules), new Set(after.rules)];
  const isSame = (rule: CompiledRule): boolean =>
    old.has(rule) &&
    now.has(rule) &&
    rule.peers.every((peer) => {
      switch (peer.kind) {
        case 'any':
        case 'interfaces':
          return true;
        case 'addresses':
          return before.addressSets.get(peer.set) === after.addressSets.get(peer.set);
        case 'services':
          return before.serviceSets.get(peer.set) === after.serviceSets.get(peer.set);
        default:
          return peer satisfies never;
      }
    });
  return mayMatchFlowsOf([...before.rules, ...after.rules].filter((rule) => !isSame(rule)));
}

/** Whether failsafe list and dropped spoofed flows are the same. */
function isSameBeforeRules(before: NodeState, after: NodeState): boolean {
  const of = ({ rules, addressSets, allNodes, controllers }: NodeState) => [
    ...[
      rules.some(({ mode }) => mode === 'Enforce'),
      addressSets.get(allNodes),
      addressSets.get(controllers),
    ],
  ];
  const [old, now] = [of(before), of(after)];
  return (
    old.every((one, i) => one === now[i]) &&
    isDeepStrictEqual(
      [before.apiServerPorts, before.controlPlane, before.platform],
      [after.apiServerPorts, after.controlPlane, after.platform],
    )
  );
}

function listOf({ source: { direction }, traffic }: CompiledRule): string {
  return `${direction} ${traffic}`;
}

function overlap(a: PortMatch, b: PortMatch): boolean {
  if (!('ports' in a && 'ports' in b) || a.ports === undefined || b.ports === undefined) return true;
  return a.ports[0] <= b.ports[1] && b.ports[0] <= a.ports[1];
}
