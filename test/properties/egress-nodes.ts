import assert from 'node:assert/strict';
import type { EgressAnswer as Explained } from '../../apis/egress/flow.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import type { EgressScenario } from '../generate/egress/egress-scenario.ts';
import { Consistency, type EgressAnswer, isPermitted } from '../oracle/egress/permission.ts';
import { count, type Seen } from './agree.ts';
import type { EgressAgreed } from './egress-agree.ts';
import { packetsOf, type SteeredPacket, takeOf, walkPacket } from './egress-walk.ts';

/**
 * Walks every flow through the compiled nodes. An assertion fails where a packet comes to another
 * end than explain says and the oracle permits, or where a gateway would take a packet that explain
 * does not send to it.
 */
export function agreeOnNodes(
  scenario: EgressScenario,
  { answers }: EgressAgreed,
  nodes: ReadonlyMap<string, NodeEgress>,
  seen: Seen,
): void {
  const consistency = new Consistency();
  const owned = [...nodes.values()].flatMap((egress) => egress.owned.flatMap(({ addresses }) => addresses));
  assert.equal(new Set(owned).size, owned.length, `two nodes own an address: ${owned.join(' ')}`);
  for (const { flow, permissions, answer } of answers) {
    for (const packet of packetsOf(flow, scenario.objects)) {
      const ends = walkPacket(nodes, packet);
      for (const end of ends) count(seen, `${end.verdict} ${end.reason}`);
      const differ = (found: string): never =>
        assert.fail(
          [
            found,
            `packet: ${JSON.stringify(packet)}`,
            `explain: ${JSON.stringify(answer)}`,
            `ends: ${JSON.stringify(ends)}`,
            `config: ${JSON.stringify(scenario.config)}`,
            ...scenario.objects.map((object) => `  ${JSON.stringify(object)}`),
          ].join('\n'),
        );
      if (ends.some((end) => !isSameEnd(end, answer, packet, nodes))) differ('another end');
      const taken = ends.filter(({ verdict }) => verdict === 'Gateway');
      for (const end of taken) {
        const whole = { ...end, gateway: answer.gateway };
        if (!isPermitted(permissions, whole)) differ('an end that the oracle does not permit');
        const contradiction = consistency.contradiction(permissions, whole);
        if (contradiction !== null) differ(contradiction);
      }
      if (taken.length === ends.length && taken.length > 0 && !isComplete(taken, answer, packet, nodes))
        differ('not every end');
      for (const [name, egress] of nodes) {
        const isSent = name === packet.node || answer.reason === 'inside';
        const take = isSent ? null : takeOf(egress, packet);
        if (take === null) continue;
        // With its own address a gateway may take it in the place of the one that does not answer.
        const isReserve = answer.verdict === 'Gateway' && take.kind === 'node';
        if (!isReserve && !(answer.nodes ?? [answer.node]).includes(name)) differ(`${name} would take it`);
      }
    }
  }
}

/** What of the answer a node knows: an unavailable policy's Direct is one as another. */
function isSameEnd(
  end: EgressAnswer,
  answer: Explained,
  packet: SteeredPacket,
  nodes: ReadonlyMap<string, NodeEgress>,
): boolean {
  if (end.policy === answer.policy && end.verdict === answer.verdict) {
    if (end.verdict === 'Drop') return end.reason === answer.reason;
    return end.verdict === 'Gateway' || end.policy !== null || end.reason === answer.reason;
  }
  // What no pod has may be a pod that the node does not know yet.
  if (end.reason === 'unknown-pod') return answer.policy === null && answer.reason === 'no-policy';
  // Gateways know the pods that they serve, each with its node: a source of podSubnets alone is
  // none.
  if (!packet.isPod && end.reason === 'not served') return end.policy === answer.policy;
  // explain does not ask whether two nodes can reach each other.
  return end.reason === 'no-route' && end.policy === answer.policy && !hasTunnel(packet, answer, nodes);
}

function hasTunnel(
  { node }: SteeredPacket,
  answer: Explained,
  nodes: ReadonlyMap<string, NodeEgress>,
): boolean {
  const gateways = answer.nodes ?? [answer.node];
  return [node, ...gateways].every((name) => name !== null && nodes.get(name)?.tunnel != null);
}

/** No node and no address that explain speaks of is missing, save where no tunnel leads to one. */
function isComplete(
  ends: readonly EgressAnswer[],
  answer: Explained,
  packet: SteeredPacket,
  nodes: ReadonlyMap<string, NodeEgress>,
): boolean {
  const [found, addresses] = [
    new Set(ends.map(({ node }) => node)),
    new Set(ends.map(({ address }) => address)),
  ];
  const missing = (answer.nodes ?? [answer.node]).filter((node) => !found.has(node));
  if (missing.length > 0) {
    const hasEnd = (node: string | null): boolean => node !== null && nodes.get(node)?.tunnel != null;
    return missing.every((node) => !hasEnd(node) || !hasEnd(packet.node));
  }
  return (
    addresses.has(null) || (answer.addresses ?? [answer.address]).every((address) => addresses.has(address))
  );
}
