import type { BuiltinChain, IptablesTable, TableName } from '../../render/iptables/tables.ts';
import { type SavedTable, type SavedTables, TABLES } from './saved.ts';

/**
 * Converts the saved state of a family to desired tables: our chains as iptables-save printed them,
 * and the jumps to them.
 */
export function asTables(saved: SavedTables): IptablesTable[] {
  return TABLES.map((name) => asTable(name, saved[name]));
}

function asTable(name: TableName, { chains, leads }: SavedTable): IptablesTable {
  // A third party's rule that leads to a chain of ours is not one of our jumps: it is removed for
  // good, as always.
  const jumps = leads.filter(({ isBuiltin, to, text }) => isBuiltin && text === `-j ${to}`);
  return {
    name,
    jumps: jumps.map(({ from, to }) => ({ from: from as BuiltinChain, to })),
    chains: new Map(
      [...chains].map(([chain, rules]) => [
        chain,
        { name: chain, rules: rules.map(({ text }) => ({ text, counts: null, source: null })) },
      ]),
    ),
  };
}
