import type { DataplaneKind } from '../kind.ts';

export const NFTABLES: DataplaneKind = {
  output: 'nft',
  hasIndex: true,
  text: async () => (await import('./text.ts')).nftablesText,
  port: async () => (await import('./port.ts')).nftablesPort,
};
