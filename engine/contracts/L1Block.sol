// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// What this chain knows of L1. The first transaction of every block writes it; fees are computed from its storage, so the layout is
/// part of the rules (specs.optimism.io: L1 attributes).
contract L1Block {
    string public constant version = "1.8.0";
    address public constant DEPOSITOR_ACCOUNT = 0xDeaDDEaDDeAdDeAdDEAdDEaddeAddEAdDEAd0001;

    error NotDepositor();

    uint64 public number; // slot 0
    uint64 public timestamp;
    uint256 public basefee; // slot 1
    bytes32 public hash; // slot 2
    uint64 public sequenceNumber; // slot 3, from its low end
    uint32 public blobBaseFeeScalar;
    uint32 public baseFeeScalar;
    bytes32 public batcherHash; // slot 4
    uint256 public l1FeeOverhead; // slot 5
    uint256 public l1FeeScalar; // slot 6
    uint256 public blobBaseFee; // slot 7
    uint64 public operatorFeeConstant; // slot 8, from its low end
    uint32 public operatorFeeScalar;
    uint16 public daFootprintGasScalar;

    function gasPayingToken() external pure returns (address token, uint8 decimals) {
        return (0xEeeeeEeeeEeEeeEeEeEeeEEEeeeeEeeeeeeeEEeE, 18);
    }

    function gasPayingTokenName() external pure returns (string memory) {
        return "Ether";
    }

    function gasPayingTokenSymbol() external pure returns (string memory) {
        return "ETH";
    }

    function isCustomGasToken() external pure returns (bool) {
        return false;
    }

    function setL1BlockValues(
        uint64 number_,
        uint64 timestamp_,
        uint256 basefee_,
        bytes32 hash_,
        uint64 sequenceNumber_,
        bytes32 batcherHash_,
        uint256 l1FeeOverhead_,
        uint256 l1FeeScalar_
    ) external {
        onlyDepositor();
        number = number_;
        timestamp = timestamp_;
        basefee = basefee_;
        hash = hash_;
        sequenceNumber = sequenceNumber_;
        batcherHash = batcherHash_;
        l1FeeOverhead = l1FeeOverhead_;
        l1FeeScalar = l1FeeScalar_;
    }

    function setL1BlockValuesEcotone() external {
        onlyDepositor();
        setEcotone();
    }

    function setL1BlockValuesIsthmus() external {
        onlyDepositor();
        setEcotone();
        setOperatorFee();
    }

    function setL1BlockValuesJovian() external {
        onlyDepositor();
        setEcotone();
        setOperatorFee();
        daFootprintGasScalar = uint16(field(176, 2));
    }

    function setEcotone() private {
        baseFeeScalar = uint32(field(4, 4));
        blobBaseFeeScalar = uint32(field(8, 4));
        sequenceNumber = uint64(field(12, 8));
        timestamp = uint64(field(20, 8));
        number = uint64(field(28, 8));
        basefee = field(36, 32);
        blobBaseFee = field(68, 32);
        hash = bytes32(field(100, 32));
        batcherHash = bytes32(field(132, 32));
    }

    function setOperatorFee() private {
        operatorFeeScalar = uint32(field(164, 4));
        operatorFeeConstant = uint64(field(168, 8));
    }

    /// `size` bytes at `offset` of the calldata, which is packed: no ABI words.
    function field(uint256 offset, uint256 size) private pure returns (uint256 value) {
        assembly {
            value := shr(sub(256, shl(3, size)), calldataload(offset))
        }
    }

    function onlyDepositor() private view {
        if (msg.sender != DEPOSITOR_ACCOUNT) revert NotDepositor();
    }
}
