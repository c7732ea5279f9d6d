import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { EgressGateway, EgressPolicy, EgressPolicySpec } from '../../apis/egress/objects.ts';
import { type Allocation, allocate } from '../../controller/egress/allocation.ts';
import { compareEgressPolicies } from '../../controller/egress/order.ts';
import { GatewayDecisions } from '../../controller/egress/owners/gateway-decisions.ts';
import { CUT, HOLD } from '../../controller/egress/owners/hold-times.ts';
import { policyStatus } from '../../controller/egress/status/policy-status.ts';
import { fakeGateway, fakeNode, fakePolicy } from '../fake/egress-objects.ts';
import { fakeClock } from '../fake/fake-clock.ts';
import { check } from './runs.ts';

const POLICIES = ['shop/a', 'shop/b', 'c'];
const NODES = ['n1', 'n2'].map((name, i) => fakeNode(name, [`10.0.0.${i + 1}`]));
const ADDRESSES = [1, 2, 3].map((i) => `198.51.100.${i}`);

type Change =
  /** Null: deleted. */
  | { readonly type: 'edit'; readonly name: string; readonly spec: Partial<EgressPolicySpec> | null }
  /** The leader decides, and writes some of the statuses: the gateway's is the first bit. */
  | { readonly type: 'decide'; readonly written: number; readonly seen: boolean }
  /** The leader's watch shows the gateway as it is now. */
  | { readonly type: 'see' }
  | { readonly type: 'leader' }
  | { readonly type: 'wait'; readonly seconds: number };

const address = (
  allocation: EgressPolicySpec['address']['allocation'],
  ipv4?: string,
  count = 1,
): Partial<EgressPolicySpec> => ({
  address: { allocation, fixed: ipv4 === undefined ? {} : { ipv4 }, count },
});
const SPEC: fc.Arbitrary<Partial<EgressPolicySpec> | null> = fc.oneof(
  fc.constantFrom(null, address('Shared'), address('Dedicated'), address('Dedicated', undefined, 2)),
  fc.constantFrom<Partial<EgressPolicySpec>>({ action: 'Direct' }, { mode: 'Audit' }),
  fc.constantFrom(...ADDRESSES).map((text) => address('Fixed', text)),
);
const EVERYTHING = 0xff;
const START = Date.parse('2026-01-01T00:00:00Z');
const CHANGE: fc.Arbitrary<Change> = fc.oneof(
  fc.record({ type: fc.constant('edit' as const), name: fc.constantFrom(...POLICIES), spec: SPEC }),
  fc.record({
    type: fc.constant('decide' as const),
    written: fc.oneof(fc.constantFrom(EVERYTHING, 1), fc.nat(EVERYTHING)),
    seen: fc.boolean(),
  }),
  fc.constantFrom({ type: 'leader' as const }, { type: 'see' as const }),
  fc.record({ type: fc.constant('wait' as const), seconds: fc.constantFrom(9, 11, 140, 301) }),
);
const DECIDED = { type: 'decide', written: EVERYTHING, seen: true } as const;
/** Mostly with a leader that keeps up. */
const CHANGES: fc.Arbitrary<Change[]> = fc
  .array(fc.tuple(CHANGE, fc.nat(2)), { minLength: 4, maxLength: 30 })
  .map((list) => list.flatMap(([change, late]) => (late === 0 ? [change] : [change, DECIDED])));

/** One gateway, its policies, their statuses as the API has them, and the leader of the moment. */
class Cluster {
  /** What the leader's watch shows of the gateway. */
  #seen: EgressGateway;
  readonly #clock = fakeClock();
  readonly clock = { ...this.#clock, date: () => new Date(START + this.#clock.now()) };
  gateway: EgressGateway = fakeGateway('g', { ranges: ['198.51.100.1-198.51.100.3'] });
  readonly policies = new Map<string, EgressPolicy>();
  #leader = this.#newLeader();

  constructor() {
    this.#seen = this.gateway;
  }

  /** As a replica compiles it whose watches are up to date. */
  allocation(gateway = this.gateway): Allocation {
    const users = [...this.policies.values()].filter(
      ({ spec }) => spec.action === 'Gateway' && spec.mode === 'Enforce',
    );
    return allocate(gateway, NODES, users.sort(compareEgressPolicies));
  }

  change(change: Change): void {
    switch (change.type) {
      case 'edit': {
        const { name, spec } = change;
        const before = this.policies.get(name);
        if (spec === null) this.policies.delete(name);
        else this.policies.set(name, { ...fakePolicy(name, spec), status: before?.status ?? null });
        return;
      }
      case 'decide':
        this.#decide(change.written);
        if (change.seen) this.#seen = this.gateway;
        return;
      case 'leader':
        this.#leader = this.#newLeader();
        this.#seen = this.gateway;
        return;
      case 'see':
        this.#seen = this.gateway;
        return;
      case 'wait':
        this.#clock.pass(change.seconds * 1000);
    }
  }

  #newLeader(): GatewayDecisions {
    return new GatewayDecisions({
      clock: this.clock,
      leases: {
        lack: () => null,
        leaseSeconds: () => null,
        hasConflict: () => false,
        nextSilence: () => Number.POSITIVE_INFINITY,
      },
      agentLack: () => null,
      moved: () => {},
    });
  }

  #decide(written: number): void {
    const before = this.allocation(this.#seen);
    const [decision] = this.#leader.decide({ allocations: [before], nodes: NODES });
    const { status, allocation } = decision ?? assert.fail();
    for (const [i, [name, policy]] of [...this.policies].entries()) {
      if ((written & (2 << i)) === 0) continue;
      const user = before.policies.includes(policy) ? allocation : null;
      const facts = { policy, allocation: user, problems: [], pods: 0, nodes: new Map() };
      this.policies.set(name, { ...policy, status: policyStatus(facts).status });
    }
    if ((written & 1) === 1) this.gateway = { ...this.gateway, status };
  }
}

interface Use {
  readonly policy: string;
  readonly address: string;
  readonly isShared: boolean;
  readonly node: string;
}

/** Addresses that the status has; until it does, no lease is given for them. */
function usesIn({ addresses, slots, gateway }: Allocation): Use[] {
  const written = new Set(gateway.status?.addresses?.map((one) => one.address));
  return [...addresses].flatMap(([{ namespace, name, spec }, own]) =>
    own[4]
      .filter((one) => written.has(one))
      .map((one) => ({
        policy: namespace === '' ? name : `${namespace}/${name}`,
        address: one,
        isShared: spec.address.allocation === 'Shared',
        node: slots.find((slot) => slot.addresses.includes(one))?.node ?? '',
      })),
  );
}

const has = (uses: readonly Use[], { policy, address }: Use): boolean =>
  uses.some((use) => use.policy === policy && use.address === address);

/** What was published, to hold the next state against it. */
class History {
  #uses: readonly Use[] = [];
  /** By policy and address, when it was last used. */
  readonly #last = new Map<string, { readonly use: Use; readonly at: number }>();
  /** Policies that had an address at one time. */
  readonly #together = new Set<string>();
  readonly #unownedSince = new Map<string, number>();
  /** How long it last was in no slot. */
  readonly #gaps = new Map<string, number>();

  /** @param before the change, milliseconds */
  check(allocation: Allocation, change: Change, before: number, now: number): void {
    for (const use of this.#uses) this.#last.set(`${use.policy} ${use.address}`, { use, at: before });
    const uses = usesIn(allocation);
    for (const use of this.#uses) {
      if (change.type === 'edit' && (change.name === use.policy || use.isShared)) continue;
      assert.ok(has(uses, use), `${use.policy} lost ${use.address}`);
      const same = uses.find(({ address }) => address === use.address);
      assert.equal(same?.node, use.node, `another owner of ${use.address}`);
    }
    this.#followOwners(allocation, now);
    for (const { address, policy } of uses) {
      const others = uses.filter((one) => one.address === address);
      for (const other of others) this.#together.add(`${address} ${policy} ${other.policy}`);
    }
    for (const use of uses) if (!has(this.#uses, use)) this.#checkNew(use, uses, now);
    this.#uses = uses;
  }

  #followOwners({ slots }: Allocation, now: number): void {
    const owned = new Set(slots.flatMap(({ addresses }) => addresses));
    for (const address of ADDRESSES) {
      const since = this.#unownedSince.get(address);
      if (!owned.has(address)) this.#unownedSince.set(address, since ?? now);
      else if (since !== undefined) {
        this.#gaps.set(address, now - since);
        this.#unownedSince.delete(address);
      }
    }
  }

  #checkNew(use: Use, uses: readonly Use[], now: number): void {
    for (const { use: old, at } of this.#last.values()) {
      if (old.address !== use.address || old.policy === use.policy || has(uses, old)) continue;
      if (old.isShared && use.isShared) continue;
      if (this.#together.has(`${use.address} ${use.policy} ${old.policy}`)) continue;
      const gap = this.#gaps.get(use.address) ?? 0;
      const times = `${now - at} ms after the last use, ${gap} ms without an owner`;
      const isOver = now - at >= HOLD && gap >= CUT;
      assert.ok(isOver, `${use.address} passes from ${old.policy} to ${use.policy}: ${times}`);
    }
  }
}

describe('floating addresses, over edits and leaders', function () {
  this.timeout(0);

  it('stay with their policies and owners, and pass to no other policy while held back', function () {
    check(this, 2000, CHANGES, (changes) => {
      const cluster = new Cluster();
      const history = new History();
      for (const change of changes) {
        const before = cluster.clock.now();
        cluster.change(change);
        history.check(cluster.allocation(), change, before, cluster.clock.now());
      }
    });
  });
});
