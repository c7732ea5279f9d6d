import { isFolded, NODE_FLOW, type NodeFlow, type NodeFlows } from '../../apis/node-flows.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import { TIME } from '../../apis/schema/shape.ts';
import {
  CLIENT_PORTS,
  NodeClass,
  type SeenTraffic,
  type SeenUse,
  scanners,
  sortOwners,
} from './node-class.ts';
import { PeerOwners } from './peer-owner.ts';
import type { NodeWindow } from './review-list.ts';
import { isAlike, roleLabels } from './roles.ts';
import { evidenceOf, type SeenService, seenServiceText, toSeenService } from './seen-service.ts';

/** Beyond them, nodes that serve nearly the same are one class, as they mostly are one role. */
const MOST_CLASSES = 128;

/**
 * The reason why a kind is allowed without any rule: the name of an exemption, or `failsafe`; null:
 * there is none.
 */
export type Guarantee = (kind: NodeFlow) => string | null;

/**
 * Takes the inventories of nodes one after another, and keeps what advice needs: nodes that serve
 * the same are one class, and peers are the Nodes, pods and Services that they belong to. So 5,000
 * inventories of 10,000 kinds need no memory for all of them. Costs O(kinds) for each node.
 */
export class AdviceCollector {
  readonly windows: NodeWindow[] = [];
  readonly owners: PeerOwners;
  readonly #classes = new Map<string, NodeClass>();

  /** @param podsGroup the number of the link group of pods' interfaces */
  constructor(
    objects: Pick<ClusterObjects, 'nodes' | 'namespaces' | 'pods' | 'endpointSlices'>,
    podsGroup: number,
  ) {
    this.owners = new PeerOwners(objects, podsGroup);
  }

  /** In the order in which they were seen first. */
  get classes(): NodeClass[] {
    return [...this.#classes.values()];
  }

  add(node: string, { since, flows, missed, isCut, kinds }: NodeFlows, guarantee: Guarantee): void {
    const local = new NodeClass();
    local.nodes.push(node);
    const valid = flows.filter(NODE_FLOW.accepts);
    for (const kind of valid) {
      const service = toSeenService(kind);
      const by = guaranteeOf(kind, guarantee);
      if (by === null)
        local.add(toSeen(kind, service), {
          owner: this.owners.ownerOf(kind, service),
          evidence: evidenceOf(kind, node),
        });
      else {
        local.guarantee(by, { kinds: 1, connections: kind.connections });
        if (by === 'failsafe' && isServed(service)) local.served.add(seenServiceText(service));
      }
    }
    const count = (of: unknown): number => Math.max(0, Number(of) || 0);
    this.windows.push({
      node,
      since: TIME.accepts(since) ? Date.parse(since) : null,
      lacks: {
        'not-given': isCut === true ? Math.max(1, count(kinds) - flows.length) : 0,
        folded: valid.filter(isFolded).length,
        'left-out': count(missed?.leftOut),
        busy: count(missed?.busySeconds),
        overrun: count(missed?.overruns),
        invalid: flows.length - valid.length,
      },
    });
    this.#join(local);
  }

  /** Keys of the owners that scan, over all nodes. */
  scanners(): Set<string> {
    const all = new NodeClass();
    for (const one of this.#classes.values()) all.merge(one);
    return scanners(all);
  }

  #join(local: NodeClass): void {
    const suspicions = { scanners: scanners(local), deniedAt: () => null };
    const isSolid = (use: SeenUse): boolean =>
      sortOwners(use, suspicions).some(({ reason }) => reason === null);
    for (const use of local.uses.values()) {
      use.nodeCount = 1;
      const { service } = use.seen;
      if (isServed(service) && isSolid(use)) local.served.add(seenServiceText(service));
    }
    const served = [...local.served].sort();
    const of = this.owners.nodes.get(local.nodes[0] ?? '');
    const labels = of === undefined ? '' : roleLabels(of);
    const key = `${served.join()} ${labels}`;
    const known = this.#classes.get(key) ?? this.#alike(local.served, labels);
    const one = known ?? new NodeClass(served, labels);
    if (known === undefined) this.#classes.set(key, one);
    // The services of a class stay as they were: it would become like no other.
    local.served.clear();
    one.merge(local);
  }

  /** Where there are many classes, one that serves nearly the same. */
  #alike(served: ReadonlySet<string>, labels: string): NodeClass | undefined {
    if (this.#classes.size < MOST_CLASSES) return undefined;
    return this.classes.find((one) => one.roleLabels === labels && isAlike(one.served, served));
  }
}

/** Whether a service says what a node is for. */
function isServed({ direction, traffic, port }: SeenService): boolean {
  return direction === 'ingress' && traffic === 'Host' && port !== null;
}

function toSeen(
  { verdict, decision, allPorts, direction, flow }: NodeFlow,
  service: SeenService,
): SeenTraffic {
  const isOfClient = direction === 'ingress' && (flow.dstPort ?? 0) >= CLIENT_PORTS;
  if (verdict !== 'Allow') return { service, reason: 'denied' };
  if (decision !== null && decision.verdict !== 'Allow')
    return { service, reason: 'denied-now', rule: `${decision.policy}/${decision.rule}` };
  if (allPorts === true) return { service, reason: isOfClient ? 'client-port' : 'many-ports' };
  return { service, reason: service.protocol === null ? 'no-port' : null };
}

/**
 * Nothing is said of many peers or ports by one of them, unless it is the exemption of pods of this
 * node, which is by the interface. Nothing is said either of what was denied, or now would be.
 */
function guaranteeOf(kind: NodeFlow, guarantee: Guarantee): string | null {
  if (kind.verdict !== 'Allow' || (kind.decision !== null && kind.decision.verdict !== 'Allow')) return null;
  const by = guarantee(kind);
  if (!isFolded(kind) || by === null || by === 'localPods') return by;
  return kind.allPorts === true || by === 'failsafe' ? null : by;
}
