// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

interface IRouter {
    function quote(uint256 amount, address[] calldata path) external view returns (uint256[] memory);
}

/// Which of several paths gives most.
contract Quoter {
    function best(IRouter router, uint256 amount, address[][] calldata paths)
        external
        view
        returns (uint256 out, uint256 chosen)
    {
        for (uint256 i = 0; i < paths.length; i++) {
            uint256[] memory amounts = router.quote(amount, paths[i]);
            uint256 last = amounts[amounts.length - 1];
            if (last > out) (out, chosen) = (last, i);
        }
    }
}
