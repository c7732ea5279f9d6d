import type { EnforcedNode, RunningAgent } from './enforced-node.ts';
import { until } from './until.ts';

/** Waits until what is in force is `rules` again; `limit` in milliseconds. */
export async function untilRepaired(
  what: string,
  node: EnforcedNode,
  { rules, agent, limit }: { readonly rules: string; readonly agent: RunningAgent; readonly limit: number },
): Promise<void> {
  let now = '';
  const isRepaired = async () => {
    now = await node.rules();
    return now === rules;
  };
  const detail = () => `${now}\n--- instead of\n${rules}\n--- agent\n${agent.log().slice(-2000)}`;
  await until(`repaired: ${what}`, isRepaired, { limit, detail, news: agent.news });
}
