/**
 * Run by nft-apart.ts, with `numbers` or `names` to print: one command of nft from standard input,
 * whatever becomes of it.
 */
import { text } from 'node:stream/consumers';
import { Nftables, NftError } from 'nftables-napi';
import type { ApartAnswer } from './nft-apart.ts';

async function answer(): Promise<ApartAnswer> {
  let opened: Nftables | null = null;
  try {
    const nftables = new Nftables({ numeric: process.argv[2] !== 'names' });
    opened = nftables;
    return { text: await nftables.run(await text(process.stdin)) };
  } catch (error) {
    if (!(error instanceof NftError)) throw error;
    const [first, ...rest] = error.all;
    return { details: [first ?? { code: error.code, message: error.message, operation: null }, ...rest] };
  } finally {
    await opened?.close();
  }
}

void answer().then((found) => process.stdout.write(JSON.stringify(found)));
