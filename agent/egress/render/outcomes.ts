import type { EgressOutcome, EgressPolicyName } from '../../../apis/egress/node-egress.ts';
import { FAMILIES } from '../../../lib/net/address.ts';
import { shortHash } from '../../../lib/sharing/hash.ts';
import { chainName, comment } from '../../render/nft-text.ts';
import { type Chain, type NftRule, plainChain, plainRule, type Statement } from '../../render/ruleset.ts';
import type { ChainVerdict } from '../../render/verdict-map.ts';
import { auditId, policyId, qualifiedPolicyText } from './counted.ts';
import { dropChain } from './drops.ts';

/** The chain in which a slot's number is written into the marks. */
export function slotChain(slot: number): string {
  return `egress-slot-${slot}`;
}

export function takeChain(take: number): string {
  return `egress-take-${take}`;
}

export interface RenderedOutcome {
  readonly chain: Chain;
  /** One for each policy in mode Audit, to count what it would have decided. */
  readonly audits: readonly Chain[];
}

const POLICY_CHAIN = 'egress-policy';
const AUDIT_CHAIN = 'egress-audit';

/**
 * The chain of an outcome. Its counter counts connections: their first packets, and those that the
 * client sends again. It is named for its content, so that the counter lasts as long as the
 * outcome.
 */
export function outcomeChain(outcome: EgressOutcome): RenderedOutcome {
  const { policy, audited, action } = outcome;
  const audits = audited.map((one) => auditChain(one));
  const said = policy === null ? 'no policy' : qualifiedPolicyText(policy);
  const rules = [
    ...audits.map(({ name }) => plainRule({ kind: 'jump', chain: name })),
    ...statements(action).map(
      (statement): NftRule => ({ matches: [], counter: true, statement, comment: comment(said) }),
    ),
  ];
  const hash = shortHash(10, policy, audited, rendered(action));
  const chain = plainChain(chainName(POLICY_CHAIN, hash, words(policy)), rules);
  return { chain: { ...chain, ruleId: policy === null ? null : policyId(policy) }, audits };
}

/** The part of an action that is rendered: another reserve makes no other chain. */
function rendered(action: EgressOutcome['action']): EgressOutcome['action'] {
  return action.kind === 'slots' ? { kind: action.kind, slots: action.slots } : action;
}

function auditChain(policy: EgressPolicyName): Chain {
  const rule: NftRule = {
    matches: [],
    counter: true,
    statement: { kind: 'return' },
    comment: comment(`audit: ${qualifiedPolicyText(policy)}`),
  };
  const chain = plainChain(chainName(AUDIT_CHAIN, shortHash(10, policy), words(policy)), [rule]);
  return { ...chain, ruleId: auditId(policy) };
}

function words(policy: EgressPolicyName | null): string {
  if (policy === null) return 'none';
  return policy.namespace === '' ? policy.name : `${policy.namespace}.${policy.name}`;
}

function statements(action: EgressOutcome['action']): Statement[] {
  switch (action.kind) {
    case 'pass':
    case 'direct':
      return [{ kind: 'accept' }];
    case 'take':
      return [{ kind: 'goto', chain: takeChain(action.take) }];
    case 'drop':
      return action.reason === 'policy'
        ? [{ kind: 'drop' }]
        : [{ kind: 'goto', chain: dropChain(action.reason) }];
    case 'slots':
      return slotStatements(action.slots);
  }
}

function slotStatements(slots: readonly number[]): Statement[] {
  const [only, ...more] = slots;
  if (only === undefined) return [{ kind: 'goto', chain: dropChain('not-ready') }];
  if (more.length === 0) return [{ kind: 'goto', chain: slotChain(only) }];
  const verdicts = buckets(slots).map((slot): ChainVerdict => ({ kind: 'goto', chain: slotChain(slot) }));
  const fields = ['saddr', 'daddr'] as const;
  return FAMILIES.map((family) => ({ kind: 'hashMap', family, fields, verdicts }));
}

/** More than the slots of a node, so that each gets about the same share. */
const BUCKETS = 128;

/**
 * The slot of each bucket, by rendezvous hashing: where a slot is added or removed, only its own
 * buckets change. Exported for tests.
 */
export function buckets(slots: readonly number[]): number[] {
  return Array.from({ length: BUCKETS }, (_, bucket) => {
    const weights = slots.map((slot) => ({ slot, weight: shortHash(8, bucket, slot) }));
    return weights.reduce((most, one) => (one.weight > most.weight ? one : most)).slot;
  });
}
