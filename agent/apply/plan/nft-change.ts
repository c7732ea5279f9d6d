import type { Change } from '../dataplane.ts';
import { changesStructure, isEmpty, type Transaction } from './transaction.ts';
import { transactionText } from './transaction-text.ts';

/** Converts a transaction to the form that the rest of the program sees. */
export function nftChange(transaction: Transaction): Change {
  return {
    isEmpty: isEmpty(transaction),
    changesStructure: changesStructure(transaction),
    text: () => transactionText(transaction),
  };
}
