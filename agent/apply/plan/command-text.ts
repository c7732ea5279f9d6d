import { baseLines, isIdentifier, mapLines, ruleText, setLines } from '../../render/nft-text.ts';
import { type Chain, TABLE } from '../../render/ruleset.ts';
import type { Command, ElementsCommand } from './command.ts';

const table = `${TABLE.family} ${TABLE.name}`;

/** A command in nft's language, for people; elements are counted, not listed. */
export function commandText(command: Command): string {
  switch (command.kind) {
    case 'addTable':
      return `add table ${table}`;
    case 'deleteTable':
      return `delete table ${table}`;
    case 'addSet':
      return `add set ${table} ${nameText(command.set.name)} { ${setLines(command.set, false).join('; ')}; }`;
    case 'addMap':
      return `add map ${table} ${nameText(command.map.name)} { ${mapLines(command.map, false).join('; ')}; }`;
    case 'deleteSet':
      return `delete set ${table} ${nameText(command.name)}`;
    case 'addChain':
      return `add chain ${table} ${nameText(command.chain.name)}${baseText(command.chain)}`;
    case 'flushChain':
      return `flush chain ${table} ${nameText(command.name)}`;
    case 'deleteChain':
      return `delete chain ${table} ${nameText(command.name)}`;
    case 'renameChain':
      return `rename chain ${table} ${nameText(command.name)} ${nameText(command.to)}`;
    case 'addRule':
      return `add rule ${table} ${nameText(command.chain)} ${ruleText(command.rule)}`;
    case 'addElements':
    case 'deleteElements':
      return `# ${elementCount(command)} elements ${command.kind === 'addElements' ? 'added to' : 'deleted from'} ${nameText(command.set)}`;
    case 'flushElements':
      return `flush set ${table} ${nameText(command.set)}`;
  }
}

/** The number of keys or ranges. */
export function elementCount({ keys, keyLength, interval }: ElementsCommand): number {
  return keys.length / (interval ? 2 * keyLength : keyLength);
}

/** Third parties can choose names through netlink that nft's language can't express. */
function nameText(name: string): string {
  return isIdentifier(name) ? name : JSON.stringify(name);
}

function baseText(chain: Chain): string {
  const lines = baseLines(chain);
  return lines.length > 0 ? ` { ${lines.join(' ')} }` : '';
}
