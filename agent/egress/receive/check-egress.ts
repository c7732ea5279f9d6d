import { BY_ADDRESS, type NodeEgress } from '../../../apis/egress/node-egress.ts';
import { changedIds } from '../../../lib/sharing/changed-map.ts';

/**
 * Throws if a part names an entry of another part that is not there. Of a gateway's pods only those
 * are examined that differ from `before`, if that is enough.
 */
export function checkEgress(egress: NodeEgress, before: NodeEgress | undefined): void {
  const { classes, outcomes, slots, peers, takes, arrivals } = egress;
  const need = (isThere: boolean, from: string, to: string): void => {
    if (!isThere) throw new Error(`egress: ${from} refers to ${to}, which the view does not contain`);
  };
  for (const [address, id] of egress.sources)
    need(id === null || classes.has(id), `source ${address}`, `class ${id}`);
  for (const [pod, id] of egress.pods)
    need(id === null || id === BY_ADDRESS || classes.has(id), `pod ${pod}`, `class ${id}`);
  for (const { class: id } of egress.subnets) need(classes.has(id), 'a subnet', `class ${id}`);
  for (const { id, ipv4, ipv6 } of classes.values()) {
    for (const { outcome } of [...ipv4, ...ipv6])
      need(outcomes.has(outcome), `class ${id}`, `outcome ${outcome}`);
  }
  for (const { id, action } of outcomes.values()) {
    if (action.kind === 'take') need(takes.has(action.take), `outcome ${id}`, `take ${action.take}`);
    if (action.kind !== 'slots') continue;
    for (const slot of [...action.slots, ...(action.reserve ?? [])])
      need(slots.has(slot), `outcome ${id}`, `slot ${slot}`);
  }
  for (const { number, node, take } of slots.values())
    need(take === 0 ? peers.has(node) : takes.has(take), `slot ${number}`, `${node}, take ${take}`);
  for (const [id, { nodes, ipv4, ipv6 }] of egress.served) {
    for (const node of nodes) need(peers.has(node), `served class ${id}`, `peer ${node}`);
    for (const { take } of [...ipv4, ...ipv6]) need(takes.has(take), `served class ${id}`, `take ${take}`);
  }
  const isSame = before?.peers === peers && before.takes === takes;
  for (const address of isSame ? changedIds(before.arrivals, arrivals) : arrivals.keys()) {
    const arrival = arrivals.get(address);
    if (arrival === undefined) continue;
    need(peers.has(arrival.node), `arrival ${address}`, `peer ${arrival.node}`);
    // With a class: those of `served`, examined above.
    if (arrival.class !== undefined) continue;
    for (const { take } of arrival.takes) need(takes.has(take), `arrival ${address}`, `take ${take}`);
  }
}
