import type { BuiltinChain, IptablesTable, TableName } from '../../render/iptables/tables.ts';
import { type SavedTable, type SavedTables, TABLES } from './saved.ts';

/**
 * What was read of a family as something to be held again: our chains as they were shown, and the
 * jumps to them.
 */
export function asTables(saved: SavedTables): IptablesTable[] {
  return TABLES.map((name) => asTable(name, saved[name]));
}

function asTable(name: TableName, { chains, leads }: SavedTable): IptablesTable {
  // A rule of somebody else's making that leads to us is no jump of ours: it goes for good, as
  // ever.
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
