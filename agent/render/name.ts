import type { Family } from '../../lib/net/address.ts';
import type { L4Protocol } from './ruleset.ts';

/**
 * Names of chains and sets: `purpose-hash-words`. An nft identifier is a letter, then letters,
 * digits and `/ \ _ . -`, at most 255 characters (NFT_NAME_MAXLEN 256 with its NUL). The hash keeps
 * names distinct whose words were cut. A comment holds at most 128 bytes
 * (NFTNL_UDATA_COMMENT_MAXLEN): a longer one makes nft refuse the whole transaction.
 */
const MAX_NAME = 128;
const MAX_COMMENT = 120;

export function chainName(purpose: string, hash: string, words: string): string {
  return `${purpose}-${hash}-${words.replaceAll(/[^A-Za-z0-9_.-]/g, '_')}`.slice(0, MAX_NAME);
}

export function setName(id: string, family: Family): string {
  return `peers-${id}-v${family}`;
}

export function serviceSetName(id: string, family: Family): string {
  return `services-${id}-v${family}`;
}

/** Cuts the text to the length of a comment, at a character boundary. */
export function comment(words: string): string {
  if (Buffer.byteLength(words) <= MAX_COMMENT) return words;
  const cut = Buffer.from(words)
    .subarray(0, MAX_COMMENT - 3)
    .toString();
  return `${cut.replace(/(?<!\uFFFD)\uFFFD+$/, '')}...`;
}

/** The chain of an index that receives the packets of a protocol, if it has one. */
export function protocolChain(index: string, protocol: L4Protocol): string {
  return `${index}-${protocol}`;
}
