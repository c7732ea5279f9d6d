import { isFolded, type Missed, type NodeFlow, type NodeFlows } from '../../apis/node-flows.ts';
import { isNodeFlow, isTime } from '../../apis/node-flows-check.ts';
import type { ClusterObjects, Node } from '../../apis/objects.ts';
import { copyOf, evidenceOf } from './evidence.ts';
import { NodeClass } from './node-class.ts';
import { roleLabels } from './node-selector.ts';
import { CLIENT_PORTS, isSolid, type Reason, scanners } from './odd-source.ts';
import { type Owner, PeerOwners } from './peer-owner.ts';
import { isAlike } from './roles.ts';
import { type SeenService, serviceOf, serviceText } from './seen-service.ts';
import { ServiceEvidence } from './service-evidence.ts';

/** Beyond them, nodes that serve nearly the same are one class, as they mostly are one role. */
const MOST_CLASSES = 128;

/**
 * The reason why a kind is allowed without any rule: the name of an exemption, or `failsafe`; null:
 * there is none.
 */
export type Guarantee = (kind: NodeFlow) => string | null;

/** The window of one node's inventory. Times are in milliseconds since 1970. */
export interface NodeWindow {
  readonly node: string;
  /** Null: it did not say so. */
  readonly since: number | null;
  readonly kinds: number;
  readonly folded: number;
  /** Kinds that do not have the form of one. */
  readonly invalid: number;
  /** Kinds of the inventory that the answer did not have room for. */
  readonly notGiven: number;
  readonly missed: Missed;
}

/**
 * Takes the inventories of nodes one after another, and keeps what advice needs: nodes that serve
 * the same are one class, and peers are the Nodes, pods and Services that they belong to. So 5,000
 * inventories of 10,000 kinds need no memory for all of them. Costs O(kinds) for each node.
 */
export class AdviceCollector {
  readonly windows: NodeWindow[] = [];
  readonly owners: PeerOwners;
  readonly #nodes: ReadonlyMap<string, Node>;
  readonly #classes = new Map<string, NodeClass>();

  /** @param podsGroup the number of the link group of pods' interfaces */
  constructor(
    objects: Pick<ClusterObjects, 'nodes' | 'namespaces' | 'pods' | 'endpointSlices'>,
    podsGroup: number,
  ) {
    this.owners = new PeerOwners(objects, podsGroup);
    this.#nodes = new Map(objects.nodes.map((node) => [node.name, node]));
  }

  /** In the order in which they were seen first. */
  get classes(): NodeClass[] {
    return [...this.#classes.values()];
  }

  add(node: string, { since, flows, missed, isCut, kinds }: NodeFlows, guarantee: Guarantee): void {
    const local = new NodeClass([], '');
    local.nodes.push(node);
    const guaranteed = new Set<string>();
    let [invalid, folded] = [0, 0];
    for (const kind of flows) {
      if (!isNodeFlow(kind)) {
        invalid++;
        continue;
      }
      if (isFolded(kind)) folded++;
      const service = serviceOf(kind);
      const by = isDenied(kind) ? null : guaranteeOf(kind, guarantee);
      if (by !== null) {
        local.guarantee(by, { kinds: 1, connections: kind.connections });
        if (by === 'failsafe' && service !== null && isServed(service)) guaranteed.add(serviceText(service));
      } else this.#collect(local, node, kind, service);
    }
    const count = (of: unknown): number => Math.max(0, Number(of) || 0);
    this.windows.push({
      node,
      kinds: flows.length,
      folded,
      invalid,
      notGiven: isCut === true ? Math.max(1, count(kinds) - flows.length) : 0,
      since: isTime(since) ? Date.parse(since) : null,
      missed: {
        leftOut: count(missed?.leftOut),
        overruns: count(missed?.overruns),
        busySeconds: count(missed?.busySeconds),
      },
    });
    this.#join(local, guaranteed);
  }

  /** Keys of the owners that scan, over all nodes. */
  scanners(): Set<string> {
    const all = new Map<string, ServiceEvidence>();
    for (const { services } of this.#classes.values()) {
      for (const [key, one] of services) {
        const of = all.get(key) ?? new ServiceEvidence(one.service);
        all.set(key, of);
        for (const { owner, evidence } of one.owners) of.add({ owner, evidence: copyOf(evidence) }, false);
      }
    }
    const folded = [...this.#classes.values()].flatMap((one) => [...one.folded]);
    return scanners(all.values(), new Set(folded));
  }

  #collect(local: NodeClass, node: string, kind: NodeFlow, service: SeenService | null): void {
    const { direction, traffic, flow, verdict, decision } = kind;
    const owner = this.owners.ownerOf(kind, service);
    const evidence = evidenceOf(kind, node);
    const aside = (reason: Reason, rule?: string): void => {
      const of = { reason, direction, traffic, service, owner, evidence };
      local.setAside(rule === undefined ? of : { ...of, rule }, true);
    };
    if (verdict !== 'Allow') aside('denied');
    else if (decision !== null && decision.verdict !== 'Allow')
      aside('denied-now', `${decision.policy}/${decision.rule}`);
    else if (kind.allPorts === true) {
      aside('many-ports');
      const isClients = Number(flow?.dstPort ?? 0) >= CLIENT_PORTS;
      if (direction === 'ingress' && isOutside(owner) && !isClients) local.folded.add(owner.key);
    } else if (service === null) aside('no-port');
    else local.seen(service, { owner, evidence });
  }

  #join(local: NodeClass, guaranteed: ReadonlySet<string>): void {
    const scanning = scanners(local.services.values(), local.folded);
    const isOwn = (of: ServiceEvidence): boolean => isServed(of.service) && isSolid(of, scanning);
    const own = [...local.services.values()].filter(isOwn).map(({ service }) => serviceText(service));
    const served = [...new Set([...own, ...guaranteed])].sort();
    const of = this.#nodes.get(local.nodes[0] ?? '');
    const labels = of === undefined ? '' : roleLabels(of);
    const key = `${served.join()} ${labels}`;
    const known = this.#classes.get(key) ?? this.#alike(new Set(served), labels);
    const one = known ?? new NodeClass(served, labels);
    if (known === null) this.#classes.set(key, one);
    one.merge(local);
  }

  /**
   * Where there are many classes, one that serves nearly the same; null: none does. What it serves
   * stays as it was: it would become like no other.
   */
  #alike(served: ReadonlySet<string>, labels: string): NodeClass | null {
    if (this.#classes.size < MOST_CLASSES) return null;
    return this.classes.find((one) => one.roleLabels === labels && isAlike(one.served, served)) ?? null;
  }
}

/** Whether a service says what a node is for. */
function isServed({ direction, traffic, port }: SeenService): boolean {
  return direction === 'ingress' && traffic === 'Host' && port !== null;
}

function isOutside({ kind }: Owner): boolean {
  return kind === 'address' || kind === 'gone-pod';
}

/** It was, or a rule in force would do it. */
function isDenied({ verdict, decision }: NodeFlow): boolean {
  return verdict !== 'Allow' || (decision !== null && decision.verdict !== 'Allow');
}

/**
 * Nothing is said of many peers or ports by one of them, unless it is the exemption of pods of this
 * node, which is by the interface.
 */
function guaranteeOf(kind: NodeFlow, guarantee: Guarantee): string | null {
  const by = guarantee(kind);
  if (!isFolded(kind) || by === null || by === 'localPods') return by;
  return kind.allPorts === true || by === 'failsafe' ? null : by;
}
