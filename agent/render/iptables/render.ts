import type { NodeState } from '../../../apis/compiled.ts';
import type { Config } from '../../../apis/config.ts';
import { TreeIndexer } from '../index/tree.ts';
import { renderer } from '../render.ts';
import type { IptablesRuleset } from './tables.ts';
import { translator } from './translate.ts';

/**
 * Stage 5 where the dataplane is iptables, for one state after another: the same chains as for
 * nftables, with an index of chains alone, then said in iptables' words. Equal states give equal
 * values. An error names the rule it could not render.
 * @param canLog as for nftables
 */
export function iptablesRenderer(config: Config, canLog = true): (state: NodeState) => IptablesRuleset {
  const render = renderer(config, canLog, new TreeIndexer());
  const translate = translator();
  return (state) => translate(render(state));
}
