import { EMPTY_STATE } from '../../apply/plan/current-state.ts';
import { transaction } from '../../apply/plan/transaction.ts';
import { transactionText } from '../../apply/plan/transaction-text.ts';
import { arpTableText, toArpTable } from '../../egress/render/arp-table.ts';
import { rulesetText } from '../../render/nft-text.ts';
import { render } from '../../render/render.ts';
import type { DataplaneText } from '../kind.ts';

export const nftablesText: DataplaneText = {
  ruleset(state, config) {
    const arp = toArpTable(state.egress ?? null);
    return rulesetText(render(state, config)) + (arp === null ? '' : arpTableText(arp));
  },
  firstTransaction: (state, config) => transactionText(transaction(EMPTY_STATE, render(state, config))),
};
