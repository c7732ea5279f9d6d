import type { Direction, PolicyTraffic } from '../../apis/objects.ts';
import { addEvidence, type Evidence } from './evidence.ts';
import type { Reason } from './odd-source.ts';
import type { Owner } from './peer-owner.ts';
import { type SeenService, serviceKey } from './seen-service.ts';
import { type OwnerEvidence, ServiceEvidence } from './service-evidence.ts';

/** Flows that become part of no rule, whatever else is seen. */
export interface Aside extends OwnerEvidence {
  readonly reason: Reason;
  readonly direction: Direction;
  readonly traffic: PolicyTraffic;
  /** Null: many, or not known. */
  readonly service: SeenService | null;
  /** The rule that denies them; only with `denied-now`. */
  readonly rule?: string;
}

export interface Tally {
  kinds: number;
  connections: number;
}

/** Beyond them, asides are counted. */
const MOST_ASIDES = 5_000;

/**
 * Nodes that serve the same and have the same labels of roles, and what was seen of all of them.
 */
export class NodeClass {
  /** Services (tcp 22) that were seen enough. */
  readonly served: Set<string>;
  readonly nodes: string[] = [];
  readonly services = new Map<string, ServiceEvidence>();
  readonly asides = new Map<string, Aside>();
  asidesLeftOut = 0;
  /** Owners that agents saw on so many ports that they folded them. */
  readonly folded = new Set<string>();
  /** Kinds that are allowed without a rule, by the exemption, or `failsafe`. */
  readonly guaranteed = new Map<string, Tally>();

  /** Their labels of roles, as one text. */
  readonly roleLabels: string;

  constructor(served: Iterable<string>, roleLabels: string) {
    this.served = new Set(served);
    this.roleLabels = roleLabels;
  }

  seen(service: SeenService, one: { readonly owner: Owner; readonly evidence: Evidence }): void {
    const key = serviceKey(service);
    const of = this.services.get(key) ?? new ServiceEvidence(service);
    this.services.set(key, of);
    of.nodeCount = 1;
    of.add(one, true);
  }

  setAside(aside: Aside, isOfOneNode: boolean): void {
    const key = asideKey(aside);
    const known = this.asides.get(key);
    if (known !== undefined) addEvidence(known.evidence, aside.evidence, isOfOneNode);
    else if (this.asides.size < MOST_ASIDES) this.asides.set(key, aside);
    else this.asidesLeftOut++;
  }

  guarantee(by: string, { kinds, connections }: Tally): void {
    const tally = this.guaranteed.get(by) ?? { kinds: 0, connections: 0 };
    tally.kinds += kinds;
    tally.connections += connections;
    this.guaranteed.set(by, tally);
  }

  /** Adds other nodes. Costs what was seen of them. */
  merge(other: NodeClass): void {
    this.nodes.push(...other.nodes);
    for (const service of other.served) this.served.add(service);
    for (const owner of other.folded) this.folded.add(owner);
    for (const [key, one] of other.services) {
      const of = this.services.get(key);
      if (of === undefined) this.services.set(key, one);
      else of.merge(one);
    }
    for (const aside of other.asides.values()) this.setAside(aside, false);
    this.asidesLeftOut += other.asidesLeftOut;
    for (const [by, tally] of other.guaranteed) this.guarantee(by, tally);
  }

  /** When owners were last denied each service. */
  deniedAt(service: SeenService): (owner: string) => number | null {
    const key = serviceKey(service);
    return (owner) => this.asides.get(`denied ${key} ${owner}`)?.evidence.lastSeen ?? null;
  }
}

function asideKey({ reason, direction, traffic, service, owner }: Aside): string {
  return `${reason} ${service === null ? `${direction} ${traffic} *` : serviceKey(service)} ${owner.key}`;
}
