import { Netlink, Nftables, NftError } from 'nftables-napi';
import type { Answer, Question } from './realkernel.ts';

/** Runs in a network namespace of its own and does what its parent asks. */

const commands = new Nftables();
const netlink = new Netlink();

function answer({ method, argument }: Question): Promise<unknown> {
  switch (method) {
    case 'run':
      return commands.run(argument);
    case 'check':
      return commands.check(argument);
    case 'batch':
      return netlink.batch(argument);
    case 'elements':
      return netlink.elements(argument);
    case 'snapshot':
      return netlink.snapshot(...argument);
  }
}

function toAnswer(error: unknown): Omit<Answer, 'id'> {
  if (error instanceof NftError) return { refused: { details: [...error.all], stderr: error.stderr } };
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
