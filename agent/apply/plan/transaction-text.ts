import type { DataplaneChange } from '../dataplane.ts';
import { commandText } from './command.ts';
import { changesStructure, isEmptyTransaction, type Transaction } from './transaction.ts';

/** The text that `dump transaction` prints. */
export function transactionText(transaction: Transaction): string {
  const parts = Object.entries(transaction).filter(([, commands]) => commands.length > 0);
  return parts.map(([title, commands]) => `# ${title}\n${commands.map(commandText).join('\n')}\n`).join('');
}

/** Converts a transaction to the form that the rest of the program sees. */
export function nftChange(transaction: Transaction): DataplaneChange {
  return {
    isEmpty: isEmptyTransaction(transaction),
    changesStructure: changesStructure(transaction),
    text: () => transactionText(transaction),
  };
}
