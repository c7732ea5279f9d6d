import { type Chain, type NftRule, targets } from '../ruleset.ts';
import { POSTROUTING } from '../topology.ts';
import { cidrText, hex } from './fragment.ts';
import {
  NO_ORIGIN,
  RETURN,
  ruleWithoutOrigin,
  type TranslationContext,
  targetText,
  withTarget,
} from './rule-text.ts';
import { CHAIN_PREFIX, type IptablesChain, type IptablesRule } from './tables.ts';

/**
 * Masquerade is decided in FORWARD, because only there the interface group that a packet came from
 * is known: the kernel refuses `devgroup --src-group` in POSTROUTING (xt_devgroup.c checks the
 * hook). A mark tells POSTROUTING, which clears it, because a packet that is encapsulated (VXLAN)
 * keeps its mark. The bit is not used by kube-proxy (0x4000, 0x8000), Cilium (0xf00, 0xffff0000) or
 * Calico (0xffff0000).
 */
const MARK = 0x1000;
const MARKED = `${hex(MARK)}/${hex(MARK)}`;

interface Masquerade {
  /** Rules of FORWARD. */
  readonly marking: readonly IptablesRule[];
  /** Chains that `marking` leads to. */
  readonly chains: readonly IptablesChain[];
  /** Rules of POSTROUTING, in table nat. */
  readonly rules: readonly IptablesRule[];
}

/** Null if nothing is masqueraded in the family. */
export function masquerade(
  chains: ReadonlyMap<string, Chain>,
  context: Omit<TranslationContext, 'traffic'>,
): Masquerade | null {
  const jumps = chains.get(POSTROUTING)?.rules.flatMap(({ statement }) => targets(statement)) ?? [];
  const marking: IptablesRule[] = [];
  const left: IptablesChain[] = [];
  const comments = new Set<string | null>();
  for (const name of jumps) {
    for (const rule of chains.get(name)?.rules ?? []) {
      const found = markRules(rule, context.chainName(name), context);
      if (found.rules.length === 0) continue;
      marking.push(...found.rules);
      if (found.chain !== null) left.push(found.chain);
      comments.add(rule.comment);
    }
  }
  if (marking.length === 0) return null;
  const [comment = null] = comments;
  return {
    marking,
    chains: left,
    rules: [
      ruleWithoutOrigin(`-m mark ! --mark ${MARKED} ${RETURN}`),
      ruleWithoutOrigin(`-j MARK --set-xmark 0x0/${hex(MARK)}`),
      ...withTarget(
        { matches: [], comment },
        targetText({ kind: 'masquerade', random: true }, context.family),
        NO_ORIGIN,
        context,
      ),
    ],
  };
}

/**
 * The rules that set the mark. If several prefixes are excluded, each is a rule that returns, in a
 * chain of its own with the mark at its end.
 */
function markRules(
  rule: NftRule,
  name: string,
  context: Omit<TranslationContext, 'traffic'>,
): { readonly rules: readonly IptablesRule[]; readonly chain: IptablesChain | null } {
  const mark = `-j MARK --set-xmark ${MARKED}`;
  const cidrs = rule.matches.flatMap((match) => (match.match === 'notIn' ? match.cidrs : []));
  if (cidrs.length < 2) return { rules: withTarget(rule, mark, NO_ORIGIN, context), chain: null };
  const others = rule.matches.filter(({ match }) => match !== 'notIn');
  const rules = withTarget({ ...rule, matches: others }, `-j ${name}`, NO_ORIGIN, context);
  const returns = cidrs.map((cidr) => ruleWithoutOrigin(`-d ${cidrText(cidr)} ${RETURN}`));
  return { rules, chain: { name, rules: [...returns, ruleWithoutOrigin(mark)] } };
}

export const POSTROUTING_CHAIN = `${CHAIN_PREFIX}POSTROUTING`;
