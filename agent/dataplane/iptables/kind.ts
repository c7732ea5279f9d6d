import type { DataplaneKind } from '../kind.ts';

export const IPTABLES: DataplaneKind = {
  output: 'iptables',
  hasIndex: false,
  text: async () => (await import('./text.ts')).iptablesText,
  port: async () => (await import('./port.ts')).iptablesPort,
};
