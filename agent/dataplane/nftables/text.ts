import { EMPTY_STATE } from '../../apply/plan/current-state.ts';
import { transaction } from '../../apply/plan/transaction.ts';
import { transactionText } from '../../apply/plan/transaction-text.ts';
import { rulesetText } from '../../render/nft-text.ts';
import { render } from '../../render/render.ts';
import type { DataplaneText } from '../kind.ts';

export const nftablesText: DataplaneText = {
  ruleset: (state, config) => rulesetText(render(state, config)),
  firstTransaction: (state, config) => transactionText(transaction(EMPTY_STATE, render(state, config))),
};
