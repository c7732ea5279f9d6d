import { commandText } from './command-text.ts';
import type { Transaction } from './transaction.ts';

/** The text that `dump transaction` prints. */
export function transactionText(transaction: Transaction): string {
  const parts = Object.entries(transaction).filter(([, commands]) => commands.length > 0);
  return parts.map(([title, commands]) => `# ${title}\n${commands.map(commandText).join('\n')}\n`).join('');
}
