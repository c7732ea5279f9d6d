import type { Change } from '../dataplane.ts';
import { changesStructure, isEmpty, type Transaction } from './transaction.ts';
import { transactionText } from './transaction-text.ts';

/** A transaction as the rest of the program sees it. */
export function nftChange(transaction: Transaction): Change {
  return {
    isEmpty: isEmpty(transaction),
    changesStructure: changesStructure(transaction),
    text: () => transactionText(transaction),
  };
}
