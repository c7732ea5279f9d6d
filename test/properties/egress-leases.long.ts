import { leaseCampaigns } from './leases/campaign.ts';

describe('leases of floating addresses (campaign)', () => {
  it('never let two nodes have one address, whatever fails, and every address is back afterwards', () => {
    leaseCampaigns(100_000, 20_000);
  }).timeout(5_400_000); // 21 minutes of processor time
});
