import type { NodeState } from '../../../apis/compiled.ts';
import type { Config } from '../../../apis/config.ts';
import { type BootFiles, MINIMAL } from '../../boot/boot-folder.ts';
import { minimalState } from '../../boot/minimal-state.ts';
import { RULE_EXTENSION } from '../../extension/rules.ts';
import { rulesetText } from '../../render/nft-text.ts';
import { render } from '../../render/render.ts';
import { type Ruleset, TABLE } from '../../render/ruleset.ts';

/**
 * For `nft --file`, each one transaction: the rules replace what is in the kernel; the minimal ones
 * are loaded where there is no table yet, so that they never take the place of others.
 */
export function nftBootFiles(ruleset: Ruleset, state: NodeState, config: Config): BootFiles {
  const extra = RULE_EXTENSION.tables(state).map((table) => replacing(table, table.text));
  const minimal = minimalState(state, config);
  return {
    'rules.nft': [replacing(TABLE, rulesetText(ruleset)), ...extra].join(''),
    [MINIMAL]:
      config.boot.onError === 'open'
        ? '# boot.onError is open: if rules.nft cannot be loaded, all is open until the agent runs.\n'
        : creating(TABLE, rulesetText(render(minimal.state, minimal.config))),
  };
}

/**
 * The first line fails where the table is (nft(8), create). Without the removal of a table the end
 * of nft doesn't wait until no processor uses it: 4 to 15 ms of a boot on Linux 6.18.
 */
function creating({ family, name }: typeof TABLE, table: string): string {
  return `create table ${family} ${name}\n${table}`;
}

/** The first line makes the table that the second removes (nft(8), delete). */
function replacing(
  { family, name }: { readonly family: string; readonly name: string },
  table: string,
): string {
  return `table ${family} ${name}\ndelete table ${family} ${name}\n${table}`;
}
