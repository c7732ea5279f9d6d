import type { NodeState } from '../../../apis/compiled.ts';
import type { Config } from '../../../apis/config.ts';
import { TreeIndexer } from '../index/tree.ts';
import { renderer } from '../render.ts';
import type { IptablesRuleset } from './tables.ts';
import { translator } from './translate.ts';

/**
 * Stage 5 for the dataplane iptables, for a sequence of states: the same chains as for nftables,
 * with an index of chains only, translated to iptables. Equal states give equal values. Throws
 * RenderError, with its source, for a rule that can't be rendered.
 * @param canLog as for nftables
 */
export function iptablesRenderer(config: Config, canLog = true): (state: NodeState) => IptablesRuleset {
  const render = renderer(config, canLog, new TreeIndexer());
  const translate = translator();
  return (state) => translate(render(state));
}
