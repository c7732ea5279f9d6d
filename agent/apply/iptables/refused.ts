import type { Family } from '../../../lib/net/address.ts';
import { CHAIN_PREFIX } from '../../render/iptables/tables.ts';
import { RefusedError } from '../dataplane.ts';
import type { RestoredRule, RuleChange } from './rule-change.ts';
import { IptablesError, type IptablesTools } from './tools.ts';

/**
 * Nothing leads to this chain. If a crash leaves it behind, it is garbage-collected like any unused
 * chain of ours.
 */
const PROBE = `${CHAIN_PREFIX}PROBE`;

/** Converts the refusal of a restore to the refusal of the rule that caused it. */
export async function blame(
  tools: IptablesTools,
  family: Family,
  change: RuleChange,
  error: IptablesError,
): Promise<RefusedError> {
  const { line } = error;
  const rule =
    line === null ? undefined : (change.rules.get(line) ?? (await findRule(tools, family, change, line)));
  if (rule === undefined) return new RefusedError(error.message, { source: null, cause: error });
  const { table, chain, rule: refused } = rule;
  return new RefusedError(`table ${table}, chain ${chain.name}, rule '${refused.text}': ${error.message}`, {
    source: refused.source,
    // NFLOG is missing either in iptables, whose message names the extension, or in the kernel,
    // whose message is "No such file".
    lacksLog: /-j NFLOG\b/.test(refused.text) && /NFLOG|No such file/.test(error.stderr),
    cause: error,
  });
}

/**
 * For a legacy table the kernel refuses the commit, not a rule. The rule is found by bisection, in
 * a chain that nothing leads to. A rule that is refused only because of the chains that lead to it
 * is not found.
 */
async function findRule(
  tools: IptablesTools,
  family: Family,
  { rules, commits }: RuleChange,
  line: number,
): Promise<RestoredRule | undefined> {
  const table = commits.get(line);
  let suspects = [...rules.values()].filter((rule) => rule.table === table);
  if (table === undefined || !(await isRefused(tools, family, suspects))) return undefined;
  while (suspects.length > 1) {
    const half = suspects.slice(0, suspects.length / 2);
    suspects = (await isRefused(tools, family, half)) ? half : suspects.slice(half.length);
  }
  return suspects[0];
}

async function isRefused(
  tools: IptablesTools,
  family: Family,
  suspects: readonly RestoredRule[],
): Promise<boolean> {
  const [first] = suspects;
  if (first === undefined) return false;
  // Without their targets: the chains they lead to may not exist.
  const texts = suspects.map(({ rule }) => rule.text.replace(new RegExp(` ?-[jg] ${CHAIN_PREFIX}\\S*$`), ''));
  const restore = (lines: readonly string[]) =>
    tools.restore(
      family,
      `*${first.table}\n:${PROBE} - [0:0]\n${lines.map((one) => `${one}\n`).join('')}COMMIT\n`,
    );
  try {
    await restore(texts.map((text) => `-A ${PROBE} ${text}`.trimEnd()));
    await restore([`-X ${PROBE}`]);
    return false;
  } catch (error) {
    if (error instanceof IptablesError && error.code === 'REFUSED') return true;
    throw error;
  }
}
