import { Netlink, Nftables, NftError } from 'nftables-napi';
import { netlinkKernel } from '../../agent/apply/netlink/kernel.ts';
import type { Answer, Question } from './real-kernel.ts';

/** Runs in a network namespace of its own and does what its parent asks. */

const commands = new Nftables();
const kernel = netlinkKernel(new Netlink());

async function answer({ method, argument }: Question): Promise<unknown> {
  switch (method) {
    case 'nft':
      await commands.run(argument);
      return;
    case 'transact':
      return kernel.transact(argument);
    case 'chains':
      return kernel.chains(argument);
    case 'elements':
      return kernel.elements(argument);
    case 'snapshot':
      return kernel.snapshot();
    case 'generation':
      return kernel.generation();
  }
}

function toAnswer(error: unknown): Omit<Answer, 'id'> {
  if (error instanceof NftError) return { refused: [...error.all] };
  return { failed: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}

process.on('message', (question: Question) => {
  const { id } = question;
  answer(question).then(
    (value) => process.send?.({ id, value }),
    (error) => process.send?.({ id, ...toAnswer(error) }),
  );
});
process.once('disconnect', () => process.exit());
