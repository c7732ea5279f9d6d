import { addEvidence, type Evidence } from './evidence.ts';
import { anyOwner, networkOwner, type Owner } from './peer-owner.ts';
import type { SeenService } from './seen-service.ts';

export interface OwnerEvidence {
  readonly owner: Owner;
  readonly evidence: Evidence;
}

/** The most addresses of a service that are told apart, and then the most networks. */
const MOST_OTHERS = 1_024;

/**
 * The users of a service, by owner. Nodes, pods and Services are bounded by the cluster's objects;
 * other addresses become their networks, and then one owner for the family, where they are many.
 */
export class ServiceEvidence {
  readonly service: SeenService;
  /** Nodes where it was seen. */
  nodeCount = 0;
  readonly #owners = new Map<string, OwnerEvidence>();
  #others = 0;
  #isFolded = false;
  #isAny = false;

  constructor(service: SeenService) {
    this.service = service;
  }

  get owners(): Iterable<OwnerEvidence> {
    return this.#owners.values();
  }

  get size(): number {
    return this.#owners.size;
  }

  of(key: string): OwnerEvidence | undefined {
    return this.#owners.get(key);
  }

  /**
   * Keeps the evidence, and changes it later.
   *
   * @param isOfOneNode whether all evidence so far is of the same node as this
   */
  add({ owner: given, evidence }: OwnerEvidence, isOfOneNode: boolean): void {
    const owner = this.#asFolded(given);
    const known = this.#owners.get(owner.key);
    if (known !== undefined) {
      addEvidence(known.evidence, evidence, isOfOneNode);
      return;
    }
    this.#owners.set(owner.key, { owner, evidence });
    if (owner.kind !== 'address' && owner.kind !== 'gone-pod' && owner.kind !== 'network') return;
    if (++this.#others > MOST_OTHERS) this.#fold();
  }

  /** Adds the evidence of another node, or role, which is used up. */
  merge(other: ServiceEvidence): void {
    this.nodeCount += other.nodeCount;
    for (const one of other.owners) this.add(one, false);
  }

  #asFolded(owner: Owner): Owner {
    if (!this.#isFolded) return owner;
    const isAddress = owner.kind === 'address' || owner.kind === 'gone-pod';
    if (this.#isAny && isAddress) return anyOwner(owner.address.family);
    if (this.#isAny && owner.kind === 'network') return anyOwner(owner.cidr.family);
    return isAddress ? networkOwner(owner.address) : owner;
  }

  #fold(): void {
    this.#isAny = this.#isFolded;
    this.#isFolded = true;
    const all = [...this.#owners.values()];
    this.#owners.clear();
    this.#others = 0;
    // Evidence of one address comes from several nodes: they are counted more than once here.
    for (const one of all) this.add(one, false);
  }
}
