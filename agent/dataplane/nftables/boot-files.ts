import type { NodeState } from '../../../apis/compiled.ts';
import type { Config } from '../../../apis/config.ts';
import { type BootFiles, MINIMAL } from '../../boot/boot-folder.ts';
import { minimalState } from '../../boot/minimal-state.ts';
import { ARP_TABLE, arpTableText, toArpTable } from '../../egress/render/arp-table.ts';
import { rulesetText } from '../../render/nft-text.ts';
import { render } from '../../render/render.ts';
import { type Ruleset, TABLE } from '../../render/ruleset.ts';

/** For `nft --file`: each replaces what is in the kernel, in one transaction. */
export function nftBootFiles(ruleset: Ruleset, state: NodeState, config: Config): BootFiles {
  const arp = toArpTable(state.egress ?? null);
  const rules = replacing(TABLE, rulesetText(ruleset));
  const minimal = minimalState(state, config);
  return {
    'rules.nft': rules + (arp === null ? '' : replacing(ARP_TABLE, arpTableText(arp))),
    [MINIMAL]:
      config.boot.onError === 'open'
        ? '# boot.onError is open: if rules.nft cannot be loaded, all is open until the agent runs.\n'
        : replacing(TABLE, rulesetText(render(minimal.state, minimal.config))),
  };
}

/** The first line makes the table that the second removes (nft(8), delete). */
function replacing({ family, name }: typeof TABLE | typeof ARP_TABLE, table: string): string {
  return `table ${family} ${name}\ndelete table ${family} ${name}\n${table}`;
}
