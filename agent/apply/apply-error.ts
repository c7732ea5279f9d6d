import { NftError } from 'nftables-napi';
import type { RuleSource } from '../../apis/compiled.ts';
import { errorMessage } from '../../lib/sharing/error.ts';
import { RefusedError } from './dataplane.ts';
import type { Command } from './plan/command.ts';
import type { Transaction } from './plan/transaction.ts';

/** The kernel refused a part of a transaction; the rules enforced before stay in force. */
export class ApplyError extends RefusedError {
  override readonly name = 'ApplyError';
  readonly stage: keyof Transaction;

  constructor(stage: keyof Transaction, refused: Command | null, cause: unknown) {
    const source = refused === null ? null : sourceOf(refused);
    const where = source === null ? '' : `rule ${source.policy}/${source.rule}: `;
    super(`${where}the kernel rejected the transaction (${stage}): ${errorMessage(cause)}`, {
      source,
      lacksLog: lacksLog(refused, cause),
      cause,
    });
    this.stage = stage;
  }
}

/**
 * Whether the kernel lacks NFLOG: it refuses a log rule with ENOENT. It reports a missing chain
 * with ENOENT too; then a third party has changed the table, and the second attempt of `apply`
 * creates the chain.
 */
function lacksLog(refused: Command | null, cause: unknown): boolean {
  return (
    cause instanceof NftError &&
    cause.code === 'ENOENT' &&
    refused?.kind === 'addRule' &&
    refused.rule.statement.kind === 'log'
  );
}

function sourceOf(command: Command): RuleSource | null {
  if (command.kind === 'addChain') return command.chain.source;
  return command.kind === 'addRule' ? command.source : null;
}
