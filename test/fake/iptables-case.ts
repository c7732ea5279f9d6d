import { IptablesReconciler } from '../../agent/apply/iptables/reconciler.ts';
import { removeRules, removeSets } from '../../agent/apply/iptables/remove.ts';
import { parseSaved } from '../../agent/apply/iptables/saved.ts';
import type { IptablesTools } from '../../agent/apply/iptables/tools.ts';
import { RULESET } from './iptables-web-server.ts';

export async function removed(tools: IptablesTools): Promise<string[]> {
  return [...(await removeRules(tools)), ...(await removeSets(tools))];
}

export interface IptablesCase {
  readonly name: string;
  readonly run: (tools: IptablesTools) => Promise<void>;
}

export async function filter4(tools: IptablesTools) {
  return parseSaved(await tools.save(4)).filter;
}

export async function processesOf(tools: IptablesTools, work: () => Promise<unknown>): Promise<number> {
  const before = tools.processes();
  await work();
  return tools.processes() - before;
}

export async function applied(tools: IptablesTools, ruleset = RULESET): Promise<IptablesReconciler> {
  const reconciler = new IptablesReconciler(tools);
  await reconciler.apply(ruleset);
  return reconciler;
}
