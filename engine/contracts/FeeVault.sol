// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// Receives one kind of fee: the sequencer's, base fees, L1 fees, operator fees. Anybody may send what is in it to the recipient,
/// who on a development chain is the last of its funded accounts.
contract FeeVault {
    enum WithdrawalNetwork {
        L1,
        L2
    }

    string public constant version = "1.6.0";
    uint256 public constant MIN_WITHDRAWAL_AMOUNT = 0;
    address public constant RECIPIENT = 0xa0Ee7A142d267C1f36714E4a8F75612F20a79720;
    WithdrawalNetwork public constant WITHDRAWAL_NETWORK = WithdrawalNetwork.L2;

    uint256 public totalProcessed; // slot 0

    event Withdrawal(uint256 value, address to, address from);
    event Withdrawal(uint256 value, address to, address from, WithdrawalNetwork withdrawalNetwork);

    receive() external payable {}

    function minWithdrawalAmount() external pure returns (uint256) {
        return MIN_WITHDRAWAL_AMOUNT;
    }

    function recipient() external pure returns (address) {
        return RECIPIENT;
    }

    function l1FeeWallet() external pure returns (address) {
        return RECIPIENT;
    }

    function withdrawalNetwork() external pure returns (WithdrawalNetwork) {
        return WITHDRAWAL_NETWORK;
    }

    function withdraw() external returns (uint256 value) {
        value = address(this).balance;
        totalProcessed += value;
        emit Withdrawal(value, RECIPIENT, msg.sender);
        emit Withdrawal(value, RECIPIENT, msg.sender, WITHDRAWAL_NETWORK);
        (bool isSent,) = RECIPIENT.call{value: value}("");
        require(isSent, "FeeVault: failed to send ETH to L2 fee recipient");
    }
}
